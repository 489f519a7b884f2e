//! Money on its way out. Every request to a model is let through here, by what may still be spent, and charged for when
//! it ends: by what its server counted, or else by what is believed. While it is under way what it is expected to take is
//! held, so that many conversations at once do not run past a limit together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aishd_log::budget::{BudgetAccount, BudgetLimits, BudgetReached, BudgetScope};
use aishd_log::event::Event;
use aishd_log::spending::{Day, EstimatedTokens, NanoUsd, PaidRequest, Payee, SpendingPurpose};
use aishd_log::state::ConversationState;
use aishd_log::usage::Usage;
use aishd_model::context_budget::BytesPerToken;
use aishd_model::model_settings::ModelSettings;
use aishd_model::preset::Preset;
use aishd_model::reply::{Reply, RequestFailure, may_be_charged};
use aishd_platform::clock;
use aishd_store::Store;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::context::token_counts::TokenCounts;

/// What everybody spends on a day; cheap to clone.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Mutex<LedgerDays>>);

#[derive(Debug)]
struct LedgerDays {
    /// By day, so that a clock that is put back finds what it knew.
    spent: BTreeMap<Day, NanoUsd>,
    under_way: NanoUsd,
}

impl Ledger {
    /// With what today's requests have cost before.
    pub fn new(store: &Store) -> Self {
        let today = Day::of(clock::now());
        let spent = store.spent_on(today).unwrap_or_else(|error| {
            tracing::error!(%error, "what was spent today cannot be read; it is counted from now on");
            NanoUsd(0)
        });
        Self(Arc::new(Mutex::new(LedgerDays {
            spent: BTreeMap::from([(today, spent)]),
            under_way: NanoUsd(0),
        })))
    }

    /// Today, what was spent on it, and what is expected of requests under way.
    pub fn today(&self) -> (Day, NanoUsd, NanoUsd) {
        let today = Day::of(clock::now());
        let days = self.lock();
        let spent = days.spent.get(&today).copied().unwrap_or_default();
        (today, spent, days.under_way)
    }

    fn hold(&self, limit: Option<NanoUsd>, expected: NanoUsd) -> Result<(), BudgetReached> {
        let today = Day::of(clock::now());
        let mut days = self.lock();
        if let Some(limit) = limit {
            let account = BudgetAccount {
                usd: days.spent.get(&today).copied().unwrap_or_default(),
                usd_under_way: days.under_way,
                ..BudgetAccount::default()
            };
            account.check_usd(BudgetScope::DayUsd, limit)?;
        }
        days.under_way = days.under_way.plus(expected);
        Ok(())
    }

    fn release(&self, expected: NanoUsd) {
        let mut days = self.lock();
        days.under_way = days.under_way.minus(expected);
    }

    fn spend(&self, cost: NanoUsd) {
        let today = Day::of(clock::now());
        let mut days = self.lock();
        let spent = days.spent.entry(today).or_default();
        *spent = spent.plus(cost);
    }

    fn lock(&self) -> MutexGuard<'_, LedgerDays> {
        self.0.lock()
    }
}

/// What one conversation spends; cheap to clone, so that tasks beside its actor can ask models too.
#[derive(Clone, Debug)]
pub(crate) struct BudgetMeter {
    ledger: Ledger,
    models: watch::Receiver<Arc<ModelSettings>>,
    tokens: TokenCounts,
    own: Arc<Mutex<BudgetMeterInner>>,
}

#[derive(Debug, Default)]
struct BudgetMeterInner {
    budget: BudgetLimits,
    account: BudgetAccount,
    /// Facts about requests whose task could not say them.
    owed: Vec<Event>,
}

impl BudgetMeter {
    pub(crate) fn new(
        ledger: Ledger,
        models: watch::Receiver<Arc<ModelSettings>>,
        tokens: TokenCounts,
    ) -> Self {
        Self {
            ledger,
            models,
            tokens,
            own: Arc::default(),
        }
    }

    /// What a conversation has taken and may take, as it was read.
    pub(crate) fn begin(&self, state: &ConversationState) {
        let mut own = self.lock();
        own.account = BudgetAccount::of(&state.usage);
        own.budget = state.budget;
    }

    pub(crate) fn set_budget(&self, budget: BudgetLimits) {
        self.lock().budget = budget;
    }

    /// Whether a request of about so many bytes may be sent, which is then under way.
    pub(crate) fn admit(
        &self,
        preset: &Preset,
        bytes: u64,
        purpose: SpendingPurpose,
    ) -> Result<SpendingTicket, BudgetReached> {
        let models = self.models.borrow().clone();
        let reserve = models.context.reserve_tokens;
        let expected = Usage {
            input: Some(self.tokens.ratio(preset).tokens(bytes)),
            output: Some(preset.max_tokens.unwrap_or(reserve).min(reserve)),
            ..Usage::default()
        };
        let (mut tokens, mut usd) = (0, NanoUsd(0));
        if !preset.is_demo() {
            tokens = expected.tokens();
            usd = preset.price.map(|it| it.of(&expected)).unwrap_or_default();
            let mut own = self.lock();
            own.account.check(&own.budget, preset.is_free())?;
            let limit = models.daily_usd.filter(|_| !preset.is_free());
            self.ledger.hold(limit, usd)?;
            own.account.hold(tokens, usd);
        }
        Ok(SpendingTicket {
            budget: self.clone(),
            payee: Payee::new(&preset.name, &preset.model, preset.price, purpose),
            is_demo: preset.is_demo(),
            bytes_per_token: self.tokens.ratio(preset),
            sent: Arc::default(),
            arrived: Arc::default(),
            tokens,
            usd,
            is_settled: false,
        })
    }

    /// As [`BudgetMeter::admit`], for a task that cannot say itself that a budget is used up.
    pub(crate) fn admit_aside(
        &self,
        preset: &Preset,
        bytes: u64,
        purpose: SpendingPurpose,
    ) -> Result<SpendingTicket, BudgetReached> {
        let admitted = self.admit(preset, bytes, purpose);
        if let Err(reached) = admitted {
            self.lock().owed.push(Event::BudgetReached(reached));
        }
        admitted
    }

    /// What tasks could not say; asked by whoever writes to the log next.
    pub(crate) fn pending_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.lock().owed)
    }

    /// Tokens and money that its requests have taken.
    pub(crate) fn spent(&self) -> (u64, NanoUsd) {
        let account = self.lock().account;
        (account.tokens, account.usd)
    }

    /// So much was taken.
    pub(crate) fn spend(&self, usage: &Usage) {
        self.lock().account.spend(usage);
        self.ledger.spend(usage.cost.unwrap_or_default());
    }

    fn lock(&self) -> MutexGuard<'_, BudgetMeterInner> {
        self.own.lock()
    }
}

/// A request that was let through. Whoever drops it before it was charged for leaves that to the conversation.
#[derive(Debug)]
pub(crate) struct SpendingTicket {
    budget: BudgetMeter,
    payee: Payee,
    is_demo: bool,
    bytes_per_token: BytesPerToken,
    /// Bytes of its body, once it is on its way.
    sent: Arc<AtomicU64>,
    /// Bytes of its answer so far.
    arrived: Arc<AtomicU64>,
    tokens: u64,
    usd: NanoUsd,
    is_settled: bool,
}

/// Told by the task that sends a request how much goes out and comes in.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestMeter {
    sent: Arc<AtomicU64>,
    arrived: Arc<AtomicU64>,
}

impl RequestMeter {
    pub(crate) fn sends(&self, bytes: usize) {
        self.sent.store(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn receives(&self, bytes: usize) {
        self.arrived.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl SpendingTicket {
    pub(crate) fn meter(&self) -> RequestMeter {
        RequestMeter {
            sent: self.sent.clone(),
            arrived: self.arrived.clone(),
        }
    }

    /// What the request took, with the answer that came of it; nothing where nobody can have charged for it.
    pub(crate) fn charge(
        mut self,
        reply: &Reply,
        failure: Option<&RequestFailure>,
    ) -> Option<PaidRequest> {
        self.is_settled = true;
        self.paid(Some(reply), failure)
    }

    /// The same, for a task beside the actor: the conversation writes it down with what it says next.
    pub(crate) fn charge_aside(mut self, reply: Option<&Reply>, failure: Option<&RequestFailure>) {
        self.is_settled = true;
        self.owe(reply, failure);
    }

    fn owe(&self, reply: Option<&Reply>, failure: Option<&RequestFailure>) {
        if let Some(paid) = self.paid(reply, failure) {
            let owed = Event::ModelUsed(Box::new(paid));
            self.budget.lock().owed.push(owed);
        }
    }

    fn paid(&self, reply: Option<&Reply>, failure: Option<&RequestFailure>) -> Option<PaidRequest> {
        let sent = self.sent.load(Ordering::Relaxed);
        let counted = reply.and_then(|it| it.usage);
        let is_silent = reply.is_none_or(Reply::is_silent);
        let was_answered = counted.is_some() || !is_silent;
        let charged = was_answered || failure.is_none_or(may_be_charged);
        if self.is_demo || sent == 0 || !charged {
            return None;
        }
        let said = reply.map_or(0, bytes_of);
        let arrived = said.max(self.arrived.load(Ordering::Relaxed));
        let believed = EstimatedTokens {
            input: self.bytes_per_token.tokens(sent),
            output: self.bytes_per_token.tokens(arrived),
        };
        let usage = self.payee.charge(counted, believed);
        self.budget.spend(&usage);
        Some(PaidRequest {
            payee: self.payee.clone(),
            usage,
        })
    }
}

/// Bytes of everything that an answer says.
pub(crate) fn bytes_of(reply: &Reply) -> u64 {
    let calls = reply.calls.iter();
    let calls: usize = calls.map(|it| it.name.len() + it.arguments.len()).sum();
    (reply.text.len() + reply.reasoning.len() + calls) as u64
}

impl Drop for SpendingTicket {
    fn drop(&mut self) {
        if !self.is_settled {
            self.owe(None, None);
        }
        self.budget.lock().account.release(self.tokens, self.usd);
        self.budget.ledger.release(self.usd);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use aishd_log::api_dialect::ApiDialect;
    use aishd_log::event::PresetSource;
    use aishd_log::spending::TokenPrice;
    use aishd_model::preset::{Backend, KeyHeader, KeySource, ModelEndpoint, Timeouts};

    use super::*;

    /// A meter of a store of its own. Whoever drops the directory drops the store.
    pub(crate) fn meter(dir: &tempfile::TempDir, daily_usd: Option<NanoUsd>) -> BudgetMeter {
        let store = Store::open(dir.path()).unwrap();
        let settings = ModelSettings {
            daily_usd,
            ..ModelSettings::default()
        };
        let (_sender, models) = watch::channel(Arc::new(settings));
        BudgetMeter::new(Ledger::new(&store), models, TokenCounts::new(&store))
    }

    /// A thousandth of a dollar for each token, whichever way it goes.
    fn preset() -> Preset {
        Preset {
            name: "paid".to_owned(),
            source: PresetSource::Configured,
            backend: Backend::Http(ModelEndpoint {
                url: "http://localhost/".to_owned(),
                api: ApiDialect::Chat,
                auth: KeyHeader::Bearer,
                key: KeySource::None,
                headers: BTreeMap::new(),
                timeouts: Timeouts::LOOPBACK,
            }),
            max_tokens: Some(100),
            price: Some(PRICE),
            ..Preset::demo()
        }
    }

    const PRICE: TokenPrice = TokenPrice {
        input: NanoUsd(1_000_000_000_000),
        cached_input: None,
        cache_write: None,
        output: NanoUsd(1_000_000_000_000),
    };

    fn counted(tokens: u64) -> Reply {
        Reply {
            text: "yes".to_owned(),
            usage: Some(Usage {
                input: Some(tokens),
                output: Some(0),
                ..Usage::default()
            }),
            ..Reply::default()
        }
    }

    fn admit(meter: &BudgetMeter) -> Result<SpendingTicket, BudgetReached> {
        meter.admit(&preset(), 4_000, SpendingPurpose::Answer)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_is_under_way_counts_until_it_is_over() {
        let dir = tempfile::tempdir().unwrap();
        let meter = meter(&dir, None);
        meter.set_budget(BudgetLimits {
            tokens: Some(1_000),
            usd: None,
        });
        let first = admit(&meter).unwrap();
        let refused = admit(&meter).unwrap_err();
        assert_eq!(BudgetScope::ConversationTokens, refused.which);
        // It never went out: nobody has taken anything.
        drop(first);
        assert_eq!((0, NanoUsd(0)), meter.spent());
        let second = admit(&meter).unwrap();
        second.meter().sends(4_000);
        let paid = second.charge(&counted(999), None).unwrap();
        assert_eq!(Some(999), paid.usage.input);
        assert_eq!(999, meter.spent().0);
        // One token is left, and a request is let through while any is.
        let third = admit(&meter).unwrap();
        third.meter().sends(4_000);
        third.charge(&counted(5), None).unwrap();
        let refused = admit(&meter).unwrap_err();
        assert_eq!(BudgetScope::ConversationTokens, refused.which);
        assert!(meter.pending_events().is_empty());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn conversations_share_a_day() {
        let dir = tempfile::tempdir().unwrap();
        let one = meter(&dir, Some(NanoUsd(2_000_000_000)));
        let other = BudgetMeter {
            own: Arc::default(),
            ..one.clone()
        };
        let ticket = admit(&one).unwrap();
        ticket.meter().sends(4_000);
        ticket.charge(&counted(2_000), None).unwrap();
        assert_eq!((0, NanoUsd(0)), other.spent());
        let refused = admit(&other).unwrap_err();
        assert_eq!(BudgetScope::DayUsd, refused.which);
        // The demo takes nothing of anybody.
        let demo = Preset::demo();
        let free = other.admit(&demo, 4_000, SpendingPurpose::Answer).unwrap();
        free.meter().sends(4_000);
        assert_eq!(None, free.charge(&counted(7), None));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_request_that_nobody_answers_for_is_charged_by_its_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let meter = meter(&dir, None);
        let ticket = admit(&meter).unwrap();
        ticket.meter().sends(4_000);
        ticket.meter().receives(400);
        drop(ticket);
        let owed = meter.pending_events();
        let [Event::ModelUsed(paid)] = owed.as_slice() else {
            panic!("{owed:?}");
        };
        assert!(paid.usage.estimated);
        let (tokens, cost) = meter.spent();
        assert_eq!(paid.usage.tokens(), tokens);
        assert_eq!(paid.usage.cost, Some(cost));
        assert!(tokens > 400, "{tokens}");
        assert!(meter.pending_events().is_empty(), "it is told once");
    }
}
