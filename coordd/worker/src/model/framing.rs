//! Bytes into events. Server-sent events are read as tolerantly as they are written in the field, and
//! a body of plain JSON, whole or one document after the other, is read too, whatever its header says.

use std::collections::VecDeque;
use std::mem;

/// All bytes of one answer, framing included: an answer of [`super::assembly`]'s bound in small
/// deltas has several times its size in framing.
const STREAM_LEN_MAX: usize = 128 * 1024 * 1024;
/// One event, or one line: some servers send a tool call's whole input in one event.
const EVENT_LEN_MAX: usize = 4 * 1024 * 1024;
/// What is kept of the beginning, to be shown where nothing is understood.
const HEAD_LEN_MAX: usize = 300;
/// The mark that some servers put before everything.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One event of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// Its name, where it has one.
    pub(super) name: String,
    pub(super) data: String,
}

/// The answer is larger than its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLarge;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing has come that tells.
    Open,
    /// Server-sent events.
    Events,
    /// Documents of JSON.
    Documents,
}

/// Takes bytes in pieces of any size and gives events.
#[derive(Debug)]
pub(super) struct Framing {
    kind: Kind,
    /// The line, or the document, that is not complete.
    unfinished: Vec<u8>,
    /// The last byte was a carriage return: a line feed after it belongs to it.
    after_return: bool,
    in_all: usize,
    name: String,
    data: Option<String>,
    nesting: Nesting,
    ready: VecDeque<Event>,
    head: Vec<u8>,
    is_cut: bool,
}

impl Framing {
    pub(super) fn new() -> Self {
        Self {
            kind: Kind::Open,
            unfinished: Vec::new(),
            after_return: false,
            in_all: 0,
            name: String::new(),
            data: None,
            nesting: Nesting::default(),
            ready: VecDeque::new(),
            head: Vec::new(),
            is_cut: false,
        }
    }

    /// Takes the next bytes in.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        self.in_all = self.in_all.saturating_add(bytes.len());
        if self.in_all > STREAM_LEN_MAX {
            return Err(TooLarge);
        }
        let room = HEAD_LEN_MAX.saturating_sub(self.head.len());
        self.head.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        match self.kind {
            Kind::Open => self.open(bytes),
            Kind::Events => self.events(bytes),
            Kind::Documents => self.documents(bytes),
        }
    }

    /// The next event that is complete.
    pub(super) fn next(&mut self) -> Option<Event> {
        self.ready.pop_front()
    }

    /// The body has ended: so has the event that it had begun, if that is whole.
    pub(super) fn end(&mut self) {
        let rest = mem::take(&mut self.unfinished);
        if self.kind == Kind::Documents {
            self.is_cut |= !rest.is_empty();
            return;
        }
        if !rest.is_empty() {
            self.line(&String::from_utf8_lossy(&rest));
        }
        if self.nesting.is_closed() {
            self.dispatch();
        } else {
            self.is_cut = true;
        }
    }

    /// Whether the body ended in the middle of an event.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// How the body began.
    pub(super) fn head(&self) -> String {
        String::from_utf8_lossy(&self.head).into_owned()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_all == 0
    }

    /// The first byte that says something tells what the body is.
    fn open(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        let mut body = mem::take(&mut self.unfinished);
        body.extend_from_slice(bytes);
        let body = body.trim_ascii_start();
        if BYTE_ORDER_MARK.starts_with(body) {
            self.unfinished = body.to_vec();
            return Ok(());
        }
        let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
        let body = body.trim_ascii_start();
        match body.first() {
            None => {
                self.unfinished = BYTE_ORDER_MARK.to_vec();
                Ok(())
            }
            Some(b'{' | b'[') => {
                self.kind = Kind::Documents;
                self.documents(body)
            }
            Some(_) => {
                self.kind = Kind::Events;
                self.events(body)
            }
        }
    }

    fn documents(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        for (at, byte) in bytes.iter().enumerate() {
            if self.unfinished.is_empty() {
                match byte {
                    b'{' | b'[' => {}
                    b',' => continue,
                    space if space.is_ascii_whitespace() => continue,
                    _ => {
                        self.kind = Kind::Events;
                        return self.events(bytes.get(at..).unwrap_or_default());
                    }
                }
            }
            self.unfinished.push(*byte);
            if self.unfinished.len() > EVENT_LEN_MAX {
                return Err(TooLarge);
            }
            self.nesting.step(*byte);
            if self.nesting.is_closed() {
                let document = mem::take(&mut self.unfinished);
                self.give(&document);
            }
        }
        Ok(())
    }

    fn give(&mut self, document: &[u8]) {
        let data = String::from_utf8_lossy(document).into_owned();
        self.ready.push_back(Event { name: String::new(), data });
    }

    fn events(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        for part in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let feed_of_return = mem::take(&mut self.after_return) && part == b"\n";
            if feed_of_return {
                continue;
            }
            let (text, ends) = match part.split_last() {
                Some((b'\n', text)) => (text, true),
                Some((b'\r', text)) => {
                    self.after_return = true;
                    (text, true)
                }
                Some(_) | None => (part, false),
            };
            self.unfinished.extend_from_slice(text);
            let pending = self.data.as_ref().map_or(0, String::len);
            if self.unfinished.len().saturating_add(pending) > EVENT_LEN_MAX {
                return Err(TooLarge);
            }
            if ends {
                let line = mem::take(&mut self.unfinished);
                self.line(&String::from_utf8_lossy(&line));
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &str) {
        let trimmed = line.trim_start();
        if line.trim().is_empty() {
            return self.dispatch();
        }
        if trimmed.starts_with(['{', '[']) {
            // JSON without a field before it.
            return self.add(trimmed);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field.trim().to_ascii_lowercase().as_str() {
            "data" => self.add(value),
            "event" => {
                self.dispatch_if_closed();
                value.trim().clone_into(&mut self.name);
            }
            "" | "id" | "retry" => {}
            // The rest of a text with a raw line break in it.
            _ if self.data.is_some() && !self.nesting.is_closed() => self.add(line),
            _ => {}
        }
    }

    /// Adds a line of data. What is whole already is an event of its own: some servers leave the
    /// blank line out.
    fn add(&mut self, line: &str) {
        self.dispatch_if_closed();
        if let Some(data) = &mut self.data {
            data.push('\n');
            self.nesting.step(b'\n');
        }
        self.data.get_or_insert_default().push_str(line);
        line.bytes().for_each(|byte| self.nesting.step(byte));
    }

    fn dispatch_if_closed(&mut self) {
        let said = self.data.as_ref().is_some_and(|data| !data.trim().is_empty());
        if said && self.nesting.is_closed() {
            self.dispatch();
        }
    }

    fn dispatch(&mut self) {
        let name = mem::take(&mut self.name);
        self.nesting = Nesting::default();
        if let Some(data) = self.data.take() {
            self.ready.push_back(Event { name, data });
        }
    }
}

/// How deep in brackets a text is.
#[derive(Debug, Default)]
struct Nesting {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    fn step(&mut self, byte: u8) {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b'"' if self.depth > 0 => self.in_string = true,
            _ => {}
        }
    }

    fn is_closed(&self) -> bool {
        self.depth == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data of the events in a body, in pieces of any size.
    fn read(body: &[u8]) -> Vec<String> {
        let whole = pieces(body, body.len().max(1));
        for size in [1, 2, 3, 7] {
            assert_eq!(pieces(body, size), whole, "{}", String::from_utf8_lossy(body));
        }
        whole
    }

    fn pieces(body: &[u8], size: usize) -> Vec<String> {
        let mut framing = Framing::new();
        body.chunks(size).for_each(|piece| framing.feed(piece).unwrap());
        framing.end();
        std::iter::from_fn(|| framing.next()).map(|event| event.data).collect()
    }

    /// fM10, fM31: the end of the body ends the event; a byte order mark, any line end and any
    /// comment are no event.
    #[test]
    fn fm10_fm31_events_are_found_however_they_are_framed() {
        let two = [r#"{"a":1}"#, r#"{"b":2}"#];
        for body in [
            "data: {\"a\":1}\n\ndata: {\"b\":2}\n\n",
            "\u{feff}data: {\"a\":1}\n\ndata: {\"b\":2}\n\n",
            "data: {\"a\":1}\r\n\r\ndata: {\"b\":2}\r\n\r\n",
            "data: {\"a\":1}\r\rdata: {\"b\":2}\r\r",
            "data:{\"a\":1}\n\n\n\n: keepalive\n:\n\ndata:{\"b\":2}",
            "data: {\"a\":1}\n\ndata: {\"b\":2}\n",
            "data: {\"a\":1}\ndata: {\"b\":2}\n",
            "Data : {\"a\":1}\n\n  data: {\"b\":2}\n\n",
            "event: x\nid: 7\nretry: 1\ndata: {\"a\":1}\nevent: y\ndata: {\"b\":2}",
            "event: ping\n\ndata: {\"a\":1}\n\nevent: ping\n\ndata: {\"b\":2}\n\n",
            "\n\n {\"a\":1}\n{\"b\":2}\n",
            "[{\"a\":1}]{\"b\":2}",
            "{\"a\":1}{\"b\":2}",
            "{\"a\":1}\n\ndata: {\"b\":2}\n\n",
            "what: ever\n{\"a\":1}\n\n{\"b\":2}",
        ] {
            let events = read(body.as_bytes());
            let events: Vec<_> = events.iter().map(|it| it.trim_matches(['[', ']'])).collect();
            assert_eq!(events, two, "{body:?}");
        }
    }

    #[test]
    fn data_in_several_lines_is_one_event() {
        assert_eq!(read(b"data: {\"a\":\ndata: 1}\n\n"), ["{\"a\":\n1}"]);
        assert_eq!(read(b"data: {\"a\":\r\ndata: 1}\r\n\r\n"), ["{\"a\":\n1}"]);
        assert_eq!(read(b"data: {\"a\":\"x\ny\"}\n\n"), ["{\"a\":\"x\ny\"}"]);
        assert_eq!(read(b"data: {\"a\":\"\xFF\"}\n\n"), ["{\"a\":\"\u{FFFD}\"}"]);
        assert_eq!(read(b"data\n\n"), [""]);
        assert!(read(b"").is_empty() && read(b"\xEF\xBB\xBF").is_empty());
    }

    /// D-8: all that comes from outside has a bound.
    #[test]
    fn an_endless_line_or_document_or_event_is_stopped() {
        let megabyte = vec![b'x'; 1024 * 1024];
        for begin in [&b"data: "[..], b"{\"", b"data: {\ndata: "] {
            let mut framing = Framing::new();
            framing.feed(begin).unwrap();
            let taken = (0..10).take_while(|_| framing.feed(&megabyte).is_ok()).count();
            assert!((3..=4).contains(&taken), "{taken}");
        }
    }
}
