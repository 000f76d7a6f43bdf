//! A link between two ends of TCP that delays, falls silent, or breaks: what a network does that a
//! test cannot have done by the kernel. It knows nothing of what passes.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// How it is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// All passes, each piece after a time.
    Open { delay: Duration },
    /// Connections stay and are made, and nothing passes. What was sent arrives when it opens
    /// again.
    Silent,
    /// Connections are gone and refused.
    Broken,
}

#[derive(Debug)]
struct Link {
    way: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    way: Way,
    ends: Vec<TcpStream>,
    is_over: bool,
}

/// It listens on loopback, until it is dropped.
#[derive(Debug)]
pub struct Forwarder {
    address: SocketAddr,
    link: Arc<Link>,
}

impl Forwarder {
    /// To there.
    pub fn to(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state =
            State { way: Way::Open { delay: Duration::ZERO }, ends: Vec::new(), is_over: false };
        let link = Arc::new(Link { way: Mutex::new(state), changed: Condvar::new() });
        let (target, accepting) = (target.to_owned(), Arc::clone(&link));
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let state = accepting.way.lock().unwrap();
                if state.is_over {
                    return;
                }
                if state.way == Way::Broken {
                    continue;
                }
                drop(state);
                let Ok(far) = TcpStream::connect(&target) else { continue };
                accepting.join(&near, &far);
            }
        });
        Self { address, link }
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// From now on it is like this.
    pub fn turn(&self, way: Way) {
        let mut state = self.link.way.lock().unwrap();
        state.way = way;
        if way == Way::Broken {
            hang_up(&mut state);
        }
        self.link.changed.notify_all();
    }
}

fn hang_up(state: &mut State) {
    for end in state.ends.drain(..) {
        let _gone = end.shutdown(Shutdown::Both);
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        let mut state = self.link.way.lock().unwrap();
        state.is_over = true;
        hang_up(&mut state);
        self.link.changed.notify_all();
        drop(state);
        // So that the one who accepts sees it.
        drop(TcpStream::connect(self.address));
    }
}

impl Link {
    fn join(self: &Arc<Self>, near: &TcpStream, far: &TcpStream) {
        let ends = [near, far].map(|it| it.try_clone().unwrap());
        self.way.lock().unwrap().ends.extend(ends);
        for (from, to) in [(near, far), (far, near)] {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let link = Arc::clone(self);
            std::thread::spawn(move || {
                let mut piece = vec![0; 64 * 1024];
                while let Ok(len) = from.read(&mut piece) {
                    if len == 0 || !link.passes() || to.write_all(&piece[..len]).is_err() {
                        break;
                    }
                }
                let _gone = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            });
        }
    }

    /// Waits until a piece may pass; false when it never will.
    fn passes(&self) -> bool {
        let silent = |state: &mut State| state.way == Way::Silent && !state.is_over;
        let state = self.changed.wait_while(self.way.lock().unwrap(), silent).unwrap();
        let (way, is_over) = (state.way, state.is_over);
        drop(state);
        match way {
            Way::Open { delay } if !is_over => {
                // The delay is what is simulated, nothing waits for it.
                std::thread::sleep(delay);
                true
            }
            Way::Open { .. } | Way::Silent | Way::Broken => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_passes_falls_silent_and_breaks() {
        let echo = TcpListener::bind("127.0.0.1:0").unwrap();
        let forwarder = Forwarder::to(&echo.local_addr().unwrap().to_string());
        let mut near = TcpStream::connect(forwarder.address).unwrap();
        let (mut far, _) = echo.accept().unwrap();
        let mut byte = [0];
        near.write_all(b"a").unwrap();
        far.read_exact(&mut byte).unwrap();
        forwarder.turn(Way::Silent);
        near.write_all(b"b").unwrap();
        far.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert!(far.read_exact(&mut byte).is_err(), "it is silent");
        forwarder.turn(Way::Open { delay: Duration::from_millis(1) });
        far.set_read_timeout(None).unwrap();
        far.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"b", "and loses nothing");
        forwarder.turn(Way::Broken);
        assert_eq!(far.read(&mut byte).unwrap(), 0);
        let mut refused = TcpStream::connect(forwarder.address).unwrap();
        assert_eq!(refused.read(&mut byte).unwrap_or(0), 0);
    }
}
