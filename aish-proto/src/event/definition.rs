//! What a line of the list of events becomes: a struct with its kind, a variant of the enum, a part of the schema.

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident: $kind:literal, $stored:literal, { $($(#[$field_meta:meta])* $field:ident: $ty:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
            #[serde(rename_all = "camelCase")]
            pub struct $name { $($(#[$field_meta])* pub $field: $ty),* }

            impl EventData for $name {
                const KIND: &'static str = $kind;
                const STORED: bool = $stored;
            }
        )*

        /// The data of an event, by its kind.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Event {
            $($(#[$doc])* $name(Box<$name>),)*
            /// Of a kind that this build does not know, or not as it knows it.
            Unknown,
        }

        impl Event {
            fn read(kind: &str, data: Value) -> Self {
                match kind {
                    $($kind => serde_json::from_value(data).map_or(Self::Unknown, |it| Self::$name(Box::new(it))),)*
                    _ => Self::Unknown,
                }
            }
        }

        /// An event as a client goes by it: its data was read once.
        pub type ClientEvent = Envelope<Event>;

        impl From<Envelope> for ClientEvent {
            fn from(event: Envelope) -> Self {
                Self {
                    v: event.v,
                    epoch: event.epoch,
                    conversation: event.conversation,
                    seq: event.seq,
                    ts: event.ts,
                    turn: event.turn,
                    client: event.client,
                    data: Event::read(&event.kind, event.data),
                    kind: event.kind,
                }
            }
        }

        /// Every kind: name, whether it is stored, schema of its data.
        pub(crate) fn kinds(generator: &mut schemars::SchemaGenerator) -> Vec<(&'static str, bool, schemars::Schema)> {
            vec![$(($kind, $stored, generator.subschema_for::<$name>())),*]
        }
    };
}

pub(super) use events;
