//! Cost of recording by short units of work inside one process.
//!
//! Two identical runs of a program differ by up to 20 % on a shared machine, so whole runs tell nothing about 1 %. Here an interpreter runs many
//! equal units of some 40 ms, each with several ticks, and reports the CPU time of each. Three arms take turns: plain, plain again, and
//! recorded. Disturbances only add time, so that an arm is represented by the mean of the lower half of its units. The second plain arm
//! shows what the method cannot resolve; the intervals come from drawing whole processes anew.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::table::Table;

/// An interpreter and a script that prints the CPU seconds of each unit.
struct Subject {
    name: &'static str,
    program: &'static str,
    script_name: &'static str,
    script: &'static str,
}

const SUBJECTS: [Subject; 4] = [
    Subject {
        name: "python",
        program: "/usr/bin/python3.11",
        script_name: "units.py",
        script: "import time\n\
                 def unit():\n    d = {}\n    for i in range(130000):\n        d[i % 997] = d.get(i % 991, 0) + i\n\
                 for _ in range(40):\n    t = time.thread_time(); unit(); print(time.thread_time() - t)\n",
    },
    Subject {
        name: "perl",
        program: "/usr/bin/perl",
        script_name: "units.pl",
        script: "use Time::HiRes qw(clock);\n\
                 sub unit { my %d; for my $i (0..130000) { $d{$i % 997} += length(\"$i\") } }\n\
                 for (1..40) { my $t = clock(); unit(); printf(\"%.6f\\n\", clock() - $t) }\n",
    },
    Subject {
        name: "lua",
        program: "/usr/bin/lua5.4",
        script_name: "units.lua",
        script: "local function unit() local d = {} for i = 1, 700000 do local k = i % 997 d[k] = (d[k] or 0) + i end end\n\
                 for _ = 1, 40 do local t = os.clock() unit() print(os.clock() - t) end\n",
    },
    Subject { name: "sqlite3", program: "/usr/bin/sqlite3", script_name: "units.sql", script: "" },
];

const N_ROUNDS: usize = 6;
const N_DRAWS: usize = 2000;

/// CPU seconds of the units of each process of an arm.
type Arm = Vec<Vec<f64>>;

/// Measures all interpreters and tabulates ratios to plain.
pub fn measure(strobe: &Path, folder: &Path) -> anyhow::Result<Table> {
    fs::create_dir_all(folder)?;
    let mut table = Table::new(&["interpreter", "plain again", "recorded", "interval", "accounted %"]);
    for subject in &SUBJECTS {
        let script = folder.join(subject.script_name);
        fs::write(&script, if subject.script.is_empty() { sqlite_script() } else { subject.script.to_owned() })?;
        let profile = folder.join("units.strobe");
        let mut arms: [Arm; 3] = Default::default();
        let mut accounted = Vec::new();
        for _ in 0..N_ROUNDS {
            for (arm, units) in arms.iter_mut().enumerate() {
                units.push(run(subject, &script, (arm == 2).then_some((strobe, profile.as_path())))?);
            }
            let facts = store::facts(&profile)?;
            accounted.extend(facts.get("cost_percent").and_then(|cost| cost.parse::<f64>().ok()));
        }
        let [plain, again, recorded] = &arms;
        let (low, high) = interval(plain, recorded);
        let mean_cost = accounted.iter().sum::<f64>() / accounted.len().max(1) as f64;
        table.row([
            subject.name.to_owned(),
            format!("{:.4}", level(again) / level(plain)),
            format!("{:.4}", level(recorded) / level(plain)),
            format!("{low:.4}-{high:.4}"),
            format!("{mean_cost:.2}"),
        ]);
    }
    Ok(table)
}

fn sqlite_script() -> String {
    let unit = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 120000) SELECT sum(x * x % 7) FROM c;\n";
    format!(".timer on\n{}", unit.repeat(40))
}

fn run(subject: &Subject, script: &Path, recording: Option<(&Path, &Path)>) -> anyhow::Result<Vec<f64>> {
    let mut command = match recording {
        Some((strobe, profile)) => {
            let mut command = Command::new(strobe);
            command.arg("record").arg("-q").arg("-o").arg(profile).arg("--").arg(subject.program);
            command
        }
        None => Command::new(subject.program),
    };
    if subject.name == "sqlite3" {
        command.arg(":memory:").stdin(fs::File::open(script)?);
    } else {
        command.arg(script).stdin(Stdio::null());
    }
    let output = command.output().with_context(|| subject.program.to_owned())?;
    ensure!(output.status.success(), "{}: {}", subject.name, String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let units: Vec<f64> = text.lines().filter_map(seconds).collect();
    ensure!(units.len() == 40, "{} reported {} units instead of 40", subject.name, units.len());
    Ok(units)
}

/// A line with a number, or one of sqlite3's timer, whose user and system times are added.
fn seconds(line: &str) -> Option<f64> {
    match line.strip_prefix("Run Time:") {
        Some(times) => {
            let words: Vec<&str> = times.split_whitespace().collect();
            let after = |name: &str| -> Option<f64> {
                let at = words.iter().position(|word| *word == name)?;
                words.get(at + 1)?.parse().ok()
            };
            Some(after("user")? + after("sys")?)
        }
        None if line.contains('.') => line.trim().parse().ok(),
        None => None,
    }
}

/// Mean of the lower half of all units.
fn level(arm: &Arm) -> f64 {
    let mut units: Vec<f64> = arm.iter().flatten().copied().collect();
    units.sort_by(f64::total_cmp);
    let half = &units[..units.len().div_ceil(2)];
    half.iter().sum::<f64>() / half.len().max(1) as f64
}

/// The middle 95 % of the ratio when processes are drawn anew.
fn interval(plain: &Arm, recorded: &Arm) -> (f64, f64) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |arm: &Arm| -> Arm {
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as usize
        };
        arm.iter().map(|_| arm[next() % arm.len()].clone()).collect()
    };
    let mut ratios: Vec<f64> = (0..N_DRAWS).map(|_| level(&draw(recorded)) / level(&draw(plain))).collect();
    ratios.sort_by(f64::total_cmp);
    (ratios[N_DRAWS / 40], ratios[N_DRAWS - 1 - N_DRAWS / 40])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_times() {
        assert_eq!(seconds("0.25"), Some(0.25));
        assert_eq!(seconds("Run Time: real 0.030 user 0.020000 sys 0.005000"), Some(0.025));
        assert_eq!(seconds("360003"), None);
        assert_eq!(seconds("text."), None);
    }

    #[test]
    fn disturbances_do_not_move_the_level() {
        let quiet: Arm = vec![vec![1.0; 40]; 3];
        let mut disturbed = quiet.clone();
        disturbed[1][..15].fill(9.0);
        assert_eq!(level(&disturbed), level(&quiet));
        let (low, high) = interval(&quiet, &disturbed);
        assert!(low <= 1.0 && 1.0 <= high);
    }
}
