//! Encodes steps on holds as keys and arguments of one call; the script documents them.

use tollgate::Timestamp;

use super::Argument;
use crate::calls::Calls;
use crate::resp::Writer;
use crate::script::hold::{FlightShape, HoldName, HoldShape, SHA1};
use crate::script::request::{Request, Shape};
use crate::script::step::CounterStep;

/// Writes the call that takes these steps in this order.
pub(crate) fn encode_holds(requests: &[&Request], calls: &mut Calls) {
    let holds = || requests.iter().filter_map(|request| Some((request.hold.as_deref()?, *request)));
    let keys = || holds().flat_map(|(_, request)| request.keys.iter());
    let (count, steps) = (keys().count(), holds().count());
    let mut call = Writer::begin(calls.begin(64 * count + 192 * steps + 64), 3 + count + steps);
    call.argument(b"EVALSHA");
    call.argument(SHA1.as_bytes());
    call.argument(itoa::Buffer::new().format(count).as_bytes());
    keys().for_each(|key| call.argument(key));
    holds().for_each(|(hold, request)| call.argument(&hold.argument(request).0));
}

impl HoldShape {
    fn argument(&self, request: &Request) -> Argument {
        let Self { operation, name: HoldName { id, binding, attempt }, length, in_flight } = self;
        let mut argument = Argument::default();
        argument.word(operation.name());
        for bytes in [&id[..], binding, attempt] {
            argument.0.extend_from_slice(bytes);
        }
        argument.number((*length).into());
        // Without an end, one that no clock reaches.
        argument.number(request.before.map_or(i64::MAX, Timestamp::as_unix_millis));
        argument.number(in_flight.len() as i64);
        argument.number(request.shapes.len() as i64);
        for FlightShape { units, limit, longest } in in_flight {
            for number in [*units, *limit, *longest] {
                argument.number(number.into());
            }
        }
        for (index, shape) in request.shapes.iter().enumerate() {
            let Shape { step, windows } = *shape;
            let (units, mut numbers) = step.arguments_of_several();
            if let Some(adjusted) = operation.settled().and_then(|settled| settled.adjusted.get(index)) {
                argument.number(adjusted.place as i64);
                argument.word(match (step, adjusted.limit) {
                    (CounterStep::Refund { .. }, _) => "refund",
                    (_, None) => "record",
                    (_, Some(limit)) => {
                        numbers[0] = limit.cast_signed();
                        "cap"
                    }
                });
            }
            argument.counter(units, numbers, windows, None);
        }
        argument
    }
}
