//! A real llama.cpp server keeps what it has read of a conversation, and says how much of a request it had still. So it is the
//! judge of whether requests keep their beginning. `tests/prepare-llamacpp.sh` prepares it; without it this skips.

use aish_proto::event::{Evicted, TurnFinished};
use aish_testkit::{Llama, World};

use crate::tools::events;

const TURNS: usize = 30;
/// What the model takes in; a token of it is a byte.
const CONTEXT: usize = 8192;
/// More than what is new in a turn: the question, a call, its result, the answer, and what stands around them.
const NEW: u64 = 900;

#[test]
fn a_real_server_reads_each_turn_alone_anew() {
    let world = World::new();
    let context = CONTEXT.to_string();
    let Some(llama) = Llama::start(&world, &["--parallel", "1", "--ctx", &context]) else {
        return;
    };
    world.write_config(&format!(
        "default_model = \"llama\"\n[models.llama]\nendpoint = \"{}/v1\"\nmodel = \"scripted\"\ncontext_tokens = {CONTEXT}\nmax_tokens = 400\n\
         [tools]\nbuiltin = true\n[mcp.auto_approve]\n\"aish__*\" = true\n\"data-tool__*\" = true\n\"example-tool__*\" = true\n",
        llama.endpoint
    ));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let mut evicted = 0;
    let mut kept = 0;
    for turn in 0..TURNS {
        client.wait_turn(client.ask(conversation, &format!("Question {turn}: what is there?")));
        // Each look at a conversation goes on as long as its connection.
        let reader = world.client();
        let ends: Vec<TurnFinished> = events(&reader, conversation);
        let usage = ends.last().and_then(|it| it.usage).unwrap();
        let evictions = events::<Evicted>(&reader, conversation).len();
        let input = usage.input_tokens.unwrap();
        let cached = usage.cached_input_tokens.unwrap_or_default();
        println!("turn {turn}: {input} in, {cached} cached, {evictions} evictions");
        // On a machine that is kept busy the server's count may come too late: an estimate says nothing of what it had.
        if turn > 0 && evictions == evicted && !usage.estimated {
            assert!(
                input - cached < NEW,
                "turn {turn}: {cached} of {input} had been kept"
            );
            kept += 1;
        }
        evicted = evictions;
    }
    assert!(evicted > 0, "nothing had to leave");
    assert!(
        kept > TURNS / 2,
        "{kept} turns without anything that leaves"
    );
}
