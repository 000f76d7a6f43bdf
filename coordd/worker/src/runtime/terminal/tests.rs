//! Programs in real pseudo-terminals, against a daemon that each test plays.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use proto::agent::{InTerminal, Order, Runtime};
use proto::hello::Credentials;
use proto::screen::{Assembly, Bytes, Came, Frame, Size};
use tempfile::TempDir;
use tokio::task::LocalSet;

use super::*;
use crate::fake_daemon::{FakeDaemon, Peer};
use crate::link::LinkConfig;
use crate::runtime::tests::bootstrap;

/// A terminal whose program is this script, and its daemon.
struct World {
    folder: TempDir,
    daemon: FakeDaemon,
    boot: Bootstrap,
}

impl World {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["state", "work"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let program = folder.path().join("claude");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut boot = bootstrap(folder.path());
        boot.runtime = Runtime::Terminal;
        boot.terminal = Some(InTerminal::default());
        boot.env = BTreeMap::from([
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            ("COORDD_CLAUDE".to_owned(), program.display().to_string()),
        ]);
        let daemon = FakeDaemon::bind(&folder.path().join("s"));
        Self { folder, daemon, boot }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts it. What it comes to, when it has ended.
    fn start(&self) -> tokio::task::JoinHandle<Ending> {
        let boot = self.boot.clone();
        let link = Link::new(LinkConfig {
            socket: boot.socket.clone().into(),
            credentials: Some(Credentials {
                agent: boot.agent.clone(),
                incarnation: boot.incarnation,
                token: boot.token.clone(),
                pid: 1,
            }),
            orphan_limit: None,
            state_dir: Some(boot.state_dir.clone().into()),
        });
        tokio::task::spawn_local(async move {
            let connection = tokio::task::spawn_local(link.clone().keep());
            let ending = live(boot, link).await;
            connection.abort();
            ending
        })
    }
}

/// Somebody who looks, with a terminal of their own.
struct Viewer {
    assembly: Assembly,
    parser: Parser,
    missed: u32,
    taken: usize,
}

type Parser = vt100::Parser;

impl Viewer {
    fn new() -> Self {
        let (rows, columns) = (24.try_into().unwrap(), 80.try_into().unwrap());
        Self {
            assembly: Assembly::default(),
            parser: Parser::new(rows, columns, 0),
            missed: 0,
            taken: 0,
        }
    }

    fn take(&mut self, frame: Frame) {
        match self.assembly.take(frame) {
            Came::Picture { size, bytes, .. } => {
                let (rows, columns) =
                    (size.rows.try_into().unwrap(), size.columns.try_into().unwrap());
                if self.parser.screen().size() != (rows, columns) {
                    self.parser.set_size(rows, columns);
                }
                self.parser.process(&bytes);
            }
            Came::Missed => self.missed += 1,
            Came::Nothing => {}
        }
    }

    fn text(&self) -> String {
        self.parser.screen().contents()
    }

    /// Looks until the screen shows this.
    async fn until(&mut self, peer: &mut Peer, text: &str) {
        while !self.text().contains(text) {
            let seen = self.taken;
            peer.until(|_| true).await;
            for report in peer.reports.drain(..) {
                if let Report::Screen { frame } = report {
                    self.take(frame);
                }
            }
            self.taken = seen + 1;
        }
    }
}

fn typed(text: &str) -> Order {
    Order::ScreenInput { size: None, bytes: Bytes(text.as_bytes().to_vec()) }
}

async fn test(work: impl Future<Output = ()>) {
    LocalSet::new()
        .run_until(async {
            timeout(Duration::from_secs(30), Box::pin(work)).await.expect("in time");
        })
        .await;
}

/// K1: the program's terminal is the one that controls it, so it hears of a new size; what is typed
/// reaches it in order.
#[tokio::test]
async fn k1_a_program_hears_of_a_new_size_and_reads_what_is_typed() {
    test(Box::pin(async {
        let script = "trap 'stty size' WINCH; stty size; echo ready $TERM
                      while :; do read -r word && echo \"<$word>\"; done";
        let world = World::new(script);
        let process = world.start();
        let mut peer = world.daemon.welcome().await;
        peer.order(Order::Screen { shown: true }).await;
        let mut viewer = Viewer::new();
        viewer.until(&mut peer, "ready xterm-256color").await;
        assert!(viewer.text().contains("24 80"), "{}", viewer.text());
        let size = Some(Size { rows: 33, columns: 111 });
        peer.order(Order::ScreenInput { size, bytes: Bytes::default() }).await;
        // Some shells see to a signal only when a line is read; in others the signal ends the
        // reading.
        peer.order(typed("one\rtwo\r")).await;
        viewer.until(&mut peer, "<two>").await;
        viewer.until(&mut peer, "33 111").await;
        assert!(viewer.text().find("<one>") < viewer.text().find("<two>"));
        assert_eq!(
            viewer.parser.screen().size(),
            (33.try_into().unwrap(), 111.try_into().unwrap())
        );
        // Ctrl-C is a signal to what is in front.
        peer.order(typed("\u{3}")).await;
        let call = peer.call().await;
        assert!(
            matches!(call.request, Request::TerminalEnded(EndedView { status: 130, .. })),
            "{call:?}"
        );
        peer.reply(call.id, Response::Done {}).await;
        assert_eq!(process.await.unwrap(), Ending::Done);
    }))
    .await;
}

/// K4: a viewer that comes late sees the same screen, and so does one that missed a picture.
#[tokio::test]
async fn k4_a_late_and_a_slow_viewer_come_to_the_same_screen() {
    test(Box::pin(async {
        let script =
            "printf '\\033[2J\\033[5;10Hdeep\\033[1;31mred\\033[0m\\033[3;8r\\033[8;1H\\n\\n'
                      while read -r word; do printf '%s\\n' \"$word\"; done";
        let world = World::new(script);
        let process = world.start();
        let mut peer = world.daemon.welcome().await;
        peer.order(Order::Screen { shown: true }).await;
        let mut first = Viewer::new();
        first.until(&mut peer, "deep").await;
        let mut frames = Vec::new();
        for word in ["alpha", "beta", "gamma"] {
            peer.order(typed(&format!("{word}\r"))).await;
            let mut seen = String::new();
            while seen.matches(word).count() < 2 {
                peer.until(|it| matches!(it, Report::Screen { .. })).await;
                for report in peer.reports.drain(..) {
                    let Report::Screen { frame } = report else { continue };
                    frames.push(frame.clone());
                    first.take(frame);
                }
                seen = first.text();
            }
        }
        // The slow one has lost a change in the middle, and sees nothing wrong meanwhile.
        let mut slow = Viewer::new();
        peer.order(Order::Screen { shown: true }).await;
        peer.until(|it| matches!(it, Report::Screen { frame } if frame.whole)).await;
        let mut late = Viewer::new();
        let wholes: Vec<Frame> = peer
            .reports
            .drain(..)
            .filter_map(
                |report| if let Report::Screen { frame } = report { Some(frame) } else { None },
            )
            .collect();
        for frame in &wholes {
            late.take(frame.clone());
            first.take(frame.clone());
        }
        assert!(frames.len() > 2, "{frames:?}");
        let mut it = frames.iter().cloned();
        slow.take(Frame { whole: true, ..it.next().unwrap() });
        it.next();
        it.for_each(|frame| slow.take(frame));
        assert_eq!(slow.missed, 1, "it asks once");
        for frame in wholes {
            slow.take(frame);
        }
        let state = |it: &Viewer| it.parser.screen().state_formatted();
        assert_eq!(state(&late), state(&first));
        assert_eq!(state(&slow), state(&first));
        assert!(first.text().contains("gamma"), "{}", first.text());
        peer.order(Order::Stop { reason: "the test".to_owned(), keep_run: false }).await;
        assert_eq!(process.await.unwrap(), Ending::Done);
    }))
    .await;
}

/// A program that writes without end stalls for nobody, and what is shown of it is bounded.
#[tokio::test]
async fn k4_a_flood_is_read_whether_anybody_looks_or_not() {
    test(Box::pin(async {
        let world =
            World::new("i=0; while [ $i -lt 30000 ]; do echo line $i; i=$((i+1)); done; exit 7");
        let process = world.start();
        let mut peer = world.daemon.welcome().await;
        let call = peer.call().await;
        let Request::TerminalEnded(EndedView { status, said }) = &call.request else {
            panic!("{call:?}")
        };
        assert_eq!((*status, said.as_str()), (7, "line 29999"));
        let shown =
            peer.reports.iter().filter(|report| matches!(report, Report::Screen { .. })).count();
        assert_eq!(shown, 0, "nobody looked");
        peer.reply(call.id, Response::Done {}).await;
        assert_eq!(process.await.unwrap(), Ending::Done);
    }))
    .await;
}

/// What programs ask their terminal is answered here, with or without viewers.
#[tokio::test]
async fn k4_a_program_that_asks_its_terminal_is_answered() {
    test(Box::pin(async {
        let script =
            "stty raw -echo; printf '\\033[3;7H\\033[6n'; head -c 6 | od -An -c | tr -d ' \\n'
                      printf '\\033[c'; head -c 7 | od -An -c | tr -d ' \\n'; printf done; cat";
        let world = World::new(script);
        let process = world.start();
        let mut peer = world.daemon.welcome().await;
        peer.order(Order::Screen { shown: true }).await;
        let mut viewer = Viewer::new();
        viewer.until(&mut peer, "done").await;
        assert!(viewer.text().contains("033[3;7R033[?1;2cdone"), "{}", viewer.text());
        peer.order(Order::Stop { reason: "the test".to_owned(), keep_run: false }).await;
        assert_eq!(process.await.unwrap(), Ending::Done);
    }))
    .await;
}

/// W-6: a stop leaves nothing, neither what ignores signals nor what left the terminal.
#[tokio::test]
async fn w6_a_stop_leaves_nothing_of_a_terminal() {
    test(Box::pin(async {
        let script = "trap '' HUP TERM; setsid sh -c 'trap \"\" HUP TERM; echo $$ >aside; while :; do sleep 1; done' &
                      while [ ! -s aside ]; do sleep 0.01; done; echo $$ >own; echo up; while :; do sleep 1; done";
        let world = World::new(script);
        let process = world.start();
        let mut peer = world.daemon.welcome().await;
        peer.order(Order::Screen { shown: true }).await;
        Viewer::new().until(&mut peer, "up").await;
        peer.order(Order::Stop { reason: "the test".to_owned(), keep_run: false }).await;
        assert_eq!(process.await.unwrap(), Ending::Done);
        for name in ["aside", "own"] {
            let pid = std::fs::read_to_string(world.path("work").join(name)).unwrap();
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
            // Its new parent may not have reaped it yet.
            let is_gone = stat.as_ref().map_or(true, |stat| stat.contains(") Z "));
            assert!(is_gone, "{name} lives: {stat:?}");
        }
    }))
    .await;
}

/// What keeps it from starting is said in words that help.
#[tokio::test]
async fn t2_a_program_that_is_not_there_is_told_as_its_end() {
    test(Box::pin(async {
        let mut world = World::new("");
        world.boot.env.remove("COORDD_CLAUDE");
        world.boot.env.insert("PATH".to_owned(), "/nowhere".to_owned());
        let process = world.start();
        let mut peer = world.daemon.welcome().await;
        let call = peer.call().await;
        let Request::TerminalEnded(EndedView { status: 127, said }) = &call.request else {
            panic!("{call:?}")
        };
        assert!(said.contains("no program `claude` in PATH"), "{said}");
        // Not taken at first: it is told again.
        peer.deny(call.id, proto::error::ErrorCode::DiskFull, "full").await;
        let call = peer.call().await;
        peer.reply(call.id, Response::Done {}).await;
        assert_eq!(process.await.unwrap(), Ending::Done);
    }))
    .await;
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(300))]

    /// K4: whatever a program writes, a viewer that draws the pictures has the same screen, and at
    /// no time one of its own.
    #[test]
    fn k4_any_output_is_drawn_as_it_is(
        pieces in proptest::collection::vec((0..OUTPUT.len(), "[a-zé漢 ]{0,12}", 0..4u8), 1..40),
    ) {
        let mut screen = Screen::new(SIZE_FIRST);
        let mut viewer = Viewer::new();
        screen.whole().into_iter().for_each(|it| viewer.take(it));
        for (kind, text, then) in pieces {
            screen.take(OUTPUT[kind].as_bytes());
            screen.take(text.as_bytes());
            match then {
                0 => screen.change().into_iter().for_each(|it| viewer.take(it)),
                // It misses one, and asks.
                1 => {
                    drop(screen.change());
                    screen.whole().into_iter().for_each(|it| viewer.take(it));
                }
                2 => {
                    let rows = if screen.size().rows == 24 { 12 } else { 24 };
                    screen.resize(Size { rows, columns: 60 + u16::from(rows == 24) * 20 });
                }
                _ => {}
            }
        }
        screen.change().into_iter().for_each(|it| viewer.take(it));
        let (own, theirs) = (screen.parser.screen(), viewer.parser.screen());
        proptest::prop_assert_eq!(own.contents(), theirs.contents());
        proptest::prop_assert_eq!(own.cursor_position(), theirs.cursor_position());
        proptest::prop_assert_eq!(own.contents_formatted(), theirs.contents_formatted());
        proptest::prop_assert_eq!(own.input_mode_formatted(), theirs.input_mode_formatted());
    }
}

/// What programs for terminals write.
const OUTPUT: [&str; 20] = [
    "",
    "\r\n",
    "\n",
    "\x1b[H",
    "\x1b[2J",
    "\x1b[12;40H",
    "\x1b[1;31m",
    "\x1b[38;2;1;2;3m",
    "\x1b[0m",
    "\x1b[K",
    "\x1b[3;9r",
    "\x1b[?1049h",
    "\x1b[?1049l",
    "\x1b[?25l",
    "\x1b[?25h",
    "\x1b[?2004h",
    "\x1b[?1000h",
    "\x1b[2L",
    "\x1b[5P",
    "\x1b]0;title\x07\x1b[?1006h\x08\x08\t",
];

/// K4: a viewer with a picture from before a time without viewers sees by the numbers that the next
/// one does not follow it.
#[test]
fn k4_a_picture_of_before_nobody_looked_is_no_longer_followed() {
    let mut screen = Screen::new(SIZE_FIRST);
    screen.take(b"one");
    let mut old = Assembly::default();
    for frame in screen.whole() {
        old.take(frame);
    }
    screen.skip();
    screen.take(b"two");
    // The whole one is for somebody else.
    let changes = screen.whole().into_iter().filter(|it| !it.whole);
    let came: Vec<_> = changes.map(|change| old.take(change)).collect();
    assert!(came.iter().any(|it| matches!(it, Came::Missed)), "{came:?}");
}
