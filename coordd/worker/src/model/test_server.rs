//! A server that says byte for byte what a test wants: slow, cut off, or wrong.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What is done with one request.
#[derive(Debug, Clone)]
pub(super) enum Act {
    Send(Vec<u8>),
    /// Waits so many milliseconds, as the clock of the test says.
    Pause(u64),
    /// Says nothing more, but stays until the client leaves.
    Stall,
}

/// One request as it came.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) head: String,
    pub(super) body: serde_json::Value,
}

/// Serves one list of acts for each request, one connection each, then listens no more.
pub(super) struct TestServer {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    serving: JoinHandle<()>,
}

impl TestServer {
    pub(super) async fn start(exchanges: Vec<Vec<Act>>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let serving = tokio::spawn(async move {
            for acts in exchanges {
                let (mut stream, _) = listener.accept().await.unwrap();
                let request = read_request(&mut stream).await;
                log.lock().unwrap().push(request);
                play(&mut stream, acts).await;
            }
        });
        Self { address, seen, serving }
    }

    pub(super) fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn read_request(stream: &mut TcpStream) -> Seen {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok()
                })
                .unwrap_or(0_usize);
            if body.len() >= length {
                let body = serde_json::from_str(body).unwrap_or_default();
                return Seen { head: head.to_owned(), body };
            }
        }
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "the client left: {text}");
    }
}

async fn play(stream: &mut TcpStream, acts: Vec<Act>) {
    for act in acts {
        match act {
            Act::Send(bytes) => {
                // The client may have gone already; that is for the test to judge.
                stream.write_all(&bytes).await.ok();
                tokio::task::yield_now().await;
            }
            Act::Pause(ms) => tokio::time::sleep(std::time::Duration::from_millis(ms)).await,
            Act::Stall => {
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).await.ok();
            }
        }
    }
    stream.shutdown().await.ok();
}

/// A whole answer that is no stream.
pub(super) fn plain(status: &str, headers: &str, body: &str) -> Vec<Act> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}\
         content-length: {}\r\n\r\n",
        body.len()
    );
    vec![Act::Send(format!("{head}{body}").into_bytes())]
}

/// An event stream in chunks of `size` bytes, without its end.
pub(super) fn cut(body: &str, size: usize) -> Vec<Act> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\
                transfer-encoding: chunked\r\n\r\n";
    let mut acts = vec![Act::Send(head.as_bytes().to_vec())];
    acts.extend(body.as_bytes().chunks(size).map(|chunk| {
        Act::Send([format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat())
    }));
    acts
}

/// The same with its end.
pub(super) fn stream(body: &str, size: usize) -> Vec<Act> {
    let mut acts = cut(body, size);
    acts.push(Act::Send(b"0\r\n\r\n".to_vec()));
    acts
}
