//! `coordctl`, the client of coordd for people and for other programs. It decides nothing: it asks
//! coordd and shows the answer.

#![forbid(unsafe_code)]

mod args;
mod client;
mod commands;
mod config;
mod context;
mod env;
mod error;
mod format;
mod guide;
mod input;
mod live;
mod model;
mod output;
mod owner;
mod pager;
mod paths;
mod question;
mod random;
mod screen;
mod signals;
mod start;
mod table;
mod terminal;
mod words;
mod worker;

use std::io::Write as _;
use std::process::ExitCode;

use error::Exit;

fn main() -> ExitCode {
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _closed = error.print();
            let is_help = !error.use_stderr();
            return if is_help { Exit::Done } else { Exit::Usage }.into();
        }
    };
    match commands::run(cli) {
        Ok(exit) => exit.into(),
        Err(error) => {
            let (exit, text) = error::report(&error);
            let _closed = std::io::stderr().lock().write_all(text.as_bytes());
            exit.into()
        }
    }
}
