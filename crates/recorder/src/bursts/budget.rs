//! Keeps the cost of recording under the user's budget by choosing how often to tick and how long
//! bursts are.
//!
//! The cost so far has two prices: seconds per tick (delivering the signal, the handler) and
//! seconds per check of a burst. With rate `r` and burst length `b`, a CPU second costs
//! `r * (tick + b * check)`. Few ticks with long bursts see more for less than many with short
//! ones, so the rate is lowered only when bursts would become shorter than [`SHORT_BURST`], and
//! raised only where something is lacking; ticks get [`TICKS_SHARE`] of the budget at most.
//!
//! **How much to spend.** The budget is what a recording may cost, not what it should. A program
//! that does the same all day is known after some seconds, one with a hundred thousand calling
//! contexts is not after a minute. So the aim follows what the profile is expected to lack by
//! chance so far ([`profile::Builder::expected_lack`]): from [`LEAST_SHARE`] of the budget where
//! that is nothing to [`MOST_SHARE`] where it is [`MUCH`] or more. The rest keeps the sum below the
//! budget while prices move, and is left for what no stamp sees: the caches that the program finds
//! changed after a burst.
//!
//! Prices change with the program's phases. So what is spent follows what has been earned: whatever
//! has been spent beyond it must be earned back within [`PAYBACK_SECONDS`] of CPU time, and what
//! has not been spent may be.

use super::tally::Cost;
use crate::plan::Wishes;

/// Ticks per CPU second when the budget allows; twice as many where shares are not well known yet.
pub const USUAL_RATE_HZ: f64 = 100.0;
/// Checks per burst when the budget allows.
pub const USUAL_BURST: u32 = 10_000;
/// Length of the first bursts, before anything is known about prices.
pub const FIRST_BURST: u32 = 500;
const SHORT_BURST: f64 = 1000.0;
/// A burst that ends early has paid for its start. Its few checks say nothing about the price of
/// many: to go by them once made the first second of programs nearly invisible.
const LEAST_CHECKS: f64 = 250.0;
/// Fewer ticks would leave the controller blind.
const LEAST_RATE_HZ: f64 = 10.0;
const TICKS_SHARE: f64 = 0.25;
/// Shares of the budget that are spent when nothing is lacking,
const LEAST_SHARE: f64 = 0.35;
/// and when so much is lacking
const MOST_SHARE: f64 = 0.85;
/// of full overlap.
const MUCH: f64 = 0.1;
const PAYBACK_SECONDS: f64 = 1.0;
/// How fast old prices are forgotten, per adjustment.
const FORGET: f64 = 0.5;

/// The settings that the runtime gets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    pub rate_hz: f64,
    pub burst_checks: u32,
}

/// Chooses the rate of ticks and the length of bursts.
#[derive(Debug)]
pub struct Budget {
    wishes: Wishes,
    setting: Setting,
    last: (Cost, f64),
    /// Seconds that could have been spent.
    earned: f64,
    tick_price: Option<f64>,
    check_price: Option<f64>,
}

impl Budget {
    pub fn new(wishes: Wishes) -> Budget {
        let first_burst = if wishes.budget.is_some() { FIRST_BURST } else { USUAL_BURST };
        let setting = Setting {
            rate_hz: wishes.rate_hz.unwrap_or(wishes.budget.map_or(USUAL_RATE_HZ, first_rate_hz)),
            burst_checks: wishes.burst_checks.unwrap_or(first_burst),
        };
        Budget { wishes, setting, last: (Cost::default(), 0.0), earned: 0.0, tick_price: None, check_price: None }
    }

    pub fn setting(&self) -> Setting {
        self.setting
    }

    /// Takes the totals so far, cost and CPU seconds of the program, and what the profile lacks if
    /// that is known; returns what to do from now on.
    pub fn adjust(&mut self, cost: Cost, cpu_seconds: f64, lack: Option<f64>) -> Setting {
        let Some(budget) = self.wishes.budget else { return self.setting };
        let (before, cpu_seconds_before) = std::mem::replace(&mut self.last, (cost, cpu_seconds));
        let need = lack.map_or(0.0, |lack| (lack / MUCH).min(1.0));
        let aim = budget * (LEAST_SHARE + need * (MOST_SHARE - LEAST_SHARE));
        self.earned += aim * (cpu_seconds - cpu_seconds_before).max(0.0);
        learn(&mut self.tick_price, cost.tick_seconds - before.tick_seconds, cost.n_ticks - before.n_ticks);
        let n_bursts = cost.n_bursts - before.n_bursts;
        let n_checks = (cost.n_checks - before.n_checks).max(LEAST_CHECKS * n_bursts);
        learn(&mut self.check_price, cost.burst_seconds - before.burst_seconds, n_checks);
        let (Some(tick), Some(check)) = (self.tick_price, self.check_price) else { return self.setting };

        let in_hand = self.earned - cost.seconds();
        let allowance = (aim + in_hand / PAYBACK_SECONDS).clamp(0.0, 2.0 * aim);
        let wanted_rate = (USUAL_RATE_HZ * (1.0 + need)).min(TICKS_SHARE * budget / tick.max(1e-12));
        let usual_rate = self.wishes.rate_hz.unwrap_or(wanted_rate);
        let affordable = (allowance / usual_rate - tick) / check.max(1e-12);
        let burst = match self.wishes.burst_checks {
            Some(fixed) => f64::from(fixed),
            None => affordable.clamp(SHORT_BURST, f64::from(USUAL_BURST)),
        };
        let least_rate = LEAST_RATE_HZ.min(first_rate_hz(budget) / 10.0).min(usual_rate);
        let rate = (allowance / (tick + burst * check)).clamp(least_rate, usual_rate);
        self.setting = Setting { rate_hz: rate, burst_checks: burst as u32 };
        self.setting
    }
}

/// Ticks per second before prices are known: as many as a small budget can bear if they are
/// expensive.
fn first_rate_hz(budget: f64) -> f64 {
    const EXPENSIVE_TICK_SECONDS: f64 = 50e-6;
    (budget / EXPENSIVE_TICK_SECONDS).clamp(1.0, USUAL_RATE_HZ)
}

fn learn(price: &mut Option<f64>, spent: f64, n: f64) {
    if n >= 1.0 {
        let latest = spent / n;
        *price = Some(price.map_or(latest, |known| known + FORGET * (latest - known)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program of `seconds` whose prices are given per second, adjusting 20 times a second;
    /// returns the share it cost.
    fn simulate(wishes: Wishes, prices: impl Fn(f64) -> (f64, f64), seconds: f64) -> (f64, Setting) {
        simulate_lacking(|_| Some(MUCH), wishes, prices, seconds)
    }

    /// The same, with what the profile lacks after so many bursts.
    fn simulate_lacking(
        lack: impl Fn(f64) -> Option<f64>,
        wishes: Wishes,
        prices: impl Fn(f64) -> (f64, f64),
        seconds: f64,
    ) -> (f64, Setting) {
        let mut budget = Budget::new(wishes);
        let (mut cost, mut cpu) = (Cost::default(), 0.0);
        let step = 0.05;
        let mut owed_ticks = 0.0;
        while cpu < seconds {
            let (tick, check) = prices(cpu);
            let setting = budget.setting();
            owed_ticks += setting.rate_hz * step;
            let ticks = owed_ticks.floor();
            owed_ticks -= ticks;
            cost.n_ticks += ticks;
            cost.n_bursts += ticks;
            cost.n_checks += ticks * f64::from(setting.burst_checks);
            cost.tick_seconds += ticks * tick;
            cost.burst_seconds += ticks * f64::from(setting.burst_checks) * check;
            cpu += step;
            budget.adjust(cost, cpu, lack(cost.n_bursts));
        }
        (cost.seconds() / cpu, budget.setting())
    }

    fn wishes(budget: f64) -> Wishes {
        Wishes { budget: Some(budget), rate_hz: None, burst_checks: None }
    }

    #[test]
    fn the_budget_holds_at_steady_prices() {
        for budget in [0.002, 0.01, 0.05] {
            for (tick, check) in [(2e-6, 4e-9), (9e-6, 5e-9), (20e-6, 50e-9), (60e-6, 200e-9)] {
                let (share, setting) = simulate(wishes(budget), |_| (tick, check), 20.0);
                assert!(share <= budget, "{budget} {tick} {check}: {share} {setting:?}");
                assert!(share >= 0.4 * budget || setting.burst_checks == USUAL_BURST, "{share} {setting:?}");
            }
        }
    }

    #[test]
    fn the_budget_holds_over_phases() {
        for budget in [0.002, 0.01, 0.05] {
            let prices = |cpu: f64| if ((cpu / 3.0) as u64).is_multiple_of(2) { (3e-6, 4e-9) } else { (15e-6, 80e-9) };
            let (share, _) = simulate(wishes(budget), prices, 60.0);
            assert!(share <= budget, "{budget}: {share}");
        }
    }

    #[test]
    fn what_is_known_already_is_not_paid_for_again() {
        let cost = |lack: f64| simulate_lacking(|_| Some(lack), wishes(0.01), |_| (20e-6, 50e-9), 20.0).0;
        assert!((cost(0.0) / (0.01 * LEAST_SHARE) - 1.0).abs() < 0.05, "{}", cost(0.0));
        assert!((cost(0.5) / (0.01 * MOST_SHARE) - 1.0).abs() < 0.05, "{}", cost(0.5));
        let learning = |seconds| {
            let lack = |n_bursts: f64| Some(n_bursts.max(1.0).sqrt().recip());
            simulate_lacking(lack, wishes(0.01), |_| (20e-6, 50e-9), seconds).0
        };
        assert!(learning(3.0) > learning(30.0) && learning(30.0) > learning(300.0));
        assert!(learning(300.0) > cost(0.0));
    }

    #[test]
    fn bursts_that_end_early_do_not_make_checks_dear() {
        let mut budget = Budget::new(wishes(0.01));
        let early = Cost {
            n_ticks: 5.0,
            n_bursts: 5.0,
            n_checks: 5.0,
            tick_seconds: 50e-6,
            burst_seconds: 100e-6,
            ..Cost::default()
        };
        let setting = budget.adjust(early, 0.05, Some(MUCH));
        assert!(setting.rate_hz > 50.0, "{setting:?}");
    }

    #[test]
    fn cheap_programs_get_the_usual_setting() {
        let known = simulate_lacking(|_| Some(0.0), wishes(0.02), |_| (2e-6, 4e-9), 20.0).1;
        assert_eq!(known, Setting { rate_hz: USUAL_RATE_HZ, burst_checks: USUAL_BURST });
        let unknown = simulate(wishes(0.02), |_| (2e-6, 4e-9), 20.0).1;
        assert_eq!(unknown, Setting { rate_hz: 2.0 * USUAL_RATE_HZ, burst_checks: USUAL_BURST });
        let dear_ticks = simulate(wishes(0.02), |_| (40e-6, 4e-9), 20.0).1;
        assert!((dear_ticks.rate_hz * 40e-6 / (TICKS_SHARE * 0.02) - 1.0).abs() < 1e-9, "{dear_ticks:?}");
    }

    #[test]
    fn what_the_user_fixed_stays() {
        let fixed = Wishes { budget: None, rate_hz: Some(2000.0), burst_checks: Some(10_000) };
        let (_, setting) = simulate(fixed, |_| (20e-6, 50e-9), 5.0);
        assert_eq!(setting, Setting { rate_hz: 2000.0, burst_checks: 10_000 });
        let fixed = Wishes { budget: Some(0.01), rate_hz: None, burst_checks: Some(64) };
        let (share, setting) = simulate(fixed, |_| (20e-6, 50e-9), 20.0);
        assert_eq!(setting.burst_checks, 64);
        assert!(share <= 0.01);
    }
}
