//! The live view: hot functions, paths and contexts of a program that is being recorded.
//!
//! `strobe top` reads the profile file again about once a second; `strobe record --live` hands over
//! its own profile. Both go through the same steps: a [`snapshot`] of plain rows, a [`state`] that
//! keys change, and a [`view`] that draws it. Only [`Screen`] touches the terminal, and gives it
//! back when it is dropped, also after a panic.

mod names;
mod snapshot;
mod state;
mod view;

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use profile::Profile;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};

use crate::top::names::KnownNames;
use crate::top::snapshot::Snapshot;
use crate::top::state::State;

pub use state::Wish;

/// Time between two looks at the profile.
const REFRESH: Duration = Duration::from_secs(1);
/// Longest wait for a key.
const NAP: Duration = Duration::from_millis(100);

/// Watches a profile file until the user has seen enough.
pub fn run(path: &Path) -> Result<()> {
    let told = Arc::new(AtomicUsize::new(0));
    let ignored = attach::ignored_signals();
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP].into_iter().filter(|n| ignored >> (n - 1) & 1 == 0) {
        signal_hook::flag::register_usize(signal, Arc::clone(&told), signal as usize)?;
    }
    // The first look comes before the screen is taken, so that an error is seen.
    let mut profile = store::open(path)?;
    ensure!(io::stdout().is_terminal(), "the live view needs a terminal; use `strobe report` in a pipe");
    let take = || Screen::take(File::from(io::stdout().as_fd().try_clone_to_owned()?));
    let mut screen = take()?;
    let mut shown_at = Instant::now();
    screen.show(&profile)?;
    loop {
        let wish = screen.attend(NAP)?;
        let signal = match (told.swap(0, Ordering::Relaxed) as i32, wish) {
            (0, Some(Wish::Quit)) => return Ok(()),
            (0, Some(Wish::Signal(signal))) => signal.as_raw(),
            (signal, _) => signal,
        };
        if signal == SIGTSTP {
            drop(screen);
            attach::stop();
            screen = take()?;
            screen.show(&profile)?;
        } else if signal != 0 {
            drop(screen);
            attach::die_by(signal);
            return Ok(());
        }
        if shown_at.elapsed() < REFRESH || screen.state.is_paused {
            continue;
        }
        // A recorder that starts over replaces the file; what was seen last stays until the next
        // one can be read.
        if let Ok(newer) = store::open(path) {
            profile = newer;
        }
        screen.show(&profile)?;
        shown_at = Instant::now();
    }
}

/// The terminal, taken over for the live view.
#[derive(Debug)]
pub struct Screen {
    terminal: Terminal<CrosstermBackend<File>>,
    state: State,
    names: KnownNames,
}

impl Screen {
    /// Takes a terminal over; a panic gives it back before its message is printed.
    pub fn take(mut terminal: File) -> Result<Screen> {
        let cannot_be_used = "the terminal cannot be used";
        let lost = terminal.try_clone().context(cannot_be_used)?;
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back(&mut &lost);
            report(panic);
        }));
        enable_raw_mode().context(cannot_be_used)?;
        execute!(terminal, EnterAlternateScreen).context(cannot_be_used)?;
        let terminal = Terminal::new(CrosstermBackend::new(terminal)).context(cannot_be_used)?;
        Ok(Screen { terminal, state: State::default(), names: KnownNames::default() })
    }

    /// Shows a profile, unless the user has paused the view.
    pub fn show(&mut self, profile: &Profile) -> Result<()> {
        if !self.state.is_paused {
            self.state.set_snapshot(Snapshot::of(profile, &mut self.names));
        }
        self.draw()
    }

    /// Waits for keys and obeys them, for at most `timeout`. Says what the view cannot do by
    /// itself: to end, or what signals do.
    pub fn attend(&mut self, timeout: Duration) -> Result<Option<Wish>> {
        if !event::poll(timeout)? {
            return Ok(None);
        }
        let wish = match event::read()? {
            Event::Key(key) => self.state.obey(key),
            _ => None,
        };
        self.draw()?;
        Ok(wish)
    }

    fn draw(&mut self) -> Result<()> {
        let state = &mut self.state;
        self.terminal.draw(|frame| view::draw(frame, state))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back(self.terminal.backend_mut());
    }
}

/// Nothing can be done about a terminal that does not take this.
fn give_back(terminal: &mut impl io::Write) {
    let _ = disable_raw_mode();
    let _ = execute!(terminal, LeaveAlternateScreen, Show);
}
