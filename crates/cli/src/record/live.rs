//! `strobe record --live`: the view of `strobe top` while the program runs.
//!
//! The view has the terminal to itself. What the program would print there goes to a file without a
//! name, and to the terminal when the view has ended; what it would read there are the view's keys,
//! so it reads nothing. A file and not a pipe, because the program must neither wait for strobe nor
//! die with it. Streams that lead elsewhere are left alone.
//!
//! The view has a thread of its own: to look names up can take seconds, in which samples have to be
//! drained.

use std::fs::File;
use std::io::{self, IsTerminal, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use profile::Profile;
use rustix::process::kill_current_process_group;

use crate::record::warn;
use crate::top::{Screen, Wish};

/// Longest wait for a key.
const NAP: Duration = Duration::from_millis(50);

/// A terminal for the view, and what the program has printed meanwhile.
#[derive(Debug)]
pub struct Live {
    terminal: File,
    printed: File,
    n_bytes_shown: u64,
    view: Option<View>,
}

/// A view that is on the screen.
#[derive(Debug)]
struct View {
    profiles: SyncSender<Profile>,
    wishes: Receiver<Wish>,
    thread: JoinHandle<Result<()>>,
}

impl Live {
    /// Finds the terminal, before the program is started: without one, nothing is.
    pub fn prepare() -> Result<Live> {
        let printed = tempfile::tempfile().context("no temporary file for what the program prints")?;
        Ok(Live { terminal: terminal()?, printed, n_bytes_shown: 0, view: None })
    }

    /// Keeps the program off the terminal.
    pub fn redirect(&self, program: &mut Command) -> io::Result<()> {
        if io::stdin().is_terminal() {
            program.stdin(Stdio::null());
        }
        if io::stdout().is_terminal() {
            program.stdout(self.printed.try_clone()?);
        }
        if io::stderr().is_terminal() {
            program.stderr(self.printed.try_clone()?);
        }
        Ok(())
    }

    /// Takes the terminal over; the program has been started.
    pub fn open(&mut self, command: String) -> Result<()> {
        let mut screen = Screen::take(self.terminal.try_clone()?)?;
        let (profiles, shown) = sync_channel(1);
        let (wish, wishes) = channel();
        let nothing_yet = Profile { facts: [("command".to_owned(), command)].into(), ..Profile::default() };
        let thread = std::thread::spawn(move || {
            screen.show(&nothing_yet)?;
            watch(&mut screen, &shown, &wish)
        });
        self.view = Some(View { profiles, wishes, thread });
        Ok(())
    }

    pub fn is_open(&self) -> bool {
        self.view.is_some()
    }

    /// Shows a newer profile and does what the user asks for. Without a view, passes on what the
    /// program prints.
    pub fn attend(&mut self, newer: Option<Profile>) {
        let Some(view) = &self.view else { return self.relay() };
        if let Some(profile) = newer {
            // A view that is not ready for it shows the next one.
            let _ = view.profiles.try_send(profile);
        }
        match view.wishes.try_recv() {
            // As the terminal does when no view is on: to all of the process group.
            Ok(Wish::Signal(signal)) => drop(kill_current_process_group(signal)),
            Ok(Wish::Quit) | Err(TryRecvError::Disconnected) => self.close(),
            Err(TryRecvError::Empty) => {}
        }
    }

    /// Gives the terminal back.
    pub fn close(&mut self) {
        let Some(View { profiles, thread, .. }) = self.view.take() else { return };
        drop(profiles);
        if let Ok(Err(error)) = thread.join() {
            warn(&format!("the live view has ended: {error:#}"));
        }
        self.relay();
    }

    fn relay(&mut self) {
        let mut buffer = [0; 1 << 14];
        while let Ok(n_bytes @ 1..) = self.printed.read_at(&mut buffer, self.n_bytes_shown) {
            let Some(printed) = buffer.get(..n_bytes) else { return };
            // A terminal that is gone can be told nothing.
            let _ = self.terminal.write_all(printed);
            self.n_bytes_shown += n_bytes as u64;
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.close();
        self.relay();
    }
}

/// Shows profiles until the user ends the view or there are no more of them.
fn watch(screen: &mut Screen, profiles: &Receiver<Profile>, wishes: &Sender<Wish>) -> Result<()> {
    loop {
        match profiles.try_recv() {
            Ok(profile) => screen.show(&profile)?,
            Err(TryRecvError::Disconnected) => return Ok(()),
            Err(TryRecvError::Empty) => {}
        }
        if let Some(wish) = screen.attend(NAP)?
            && (wishes.send(wish).is_err() || wish == Wish::Quit)
        {
            return Ok(());
        }
    }
}

/// Returns the terminal for the view, even if some of strobe's output is redirected.
fn terminal() -> Result<File> {
    let of = |stream: &dyn AsFd| -> Result<File> { Ok(File::from(stream.as_fd().try_clone_to_owned()?)) };
    if io::stdout().is_terminal() {
        return of(&io::stdout());
    }
    if io::stderr().is_terminal() {
        return of(&io::stderr());
    }
    let own = File::options().read(true).write(true).open("/dev/tty");
    own.context("--live needs a terminal; `strobe top` in another one shows the same")
}
