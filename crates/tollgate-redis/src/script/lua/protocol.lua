-- Takes many requests in one step, one after another, at one reading of the clock. Each is all or nothing. Several
-- counters are all read before the first write. A single one may be charged before it is checked; if it had no room,
-- that is undone in the same step.
--
-- KEYS: the counters, request by request. ARGV: groups of requests that differ only in their keys. Each group is packed
-- into one text, because ten arguments cost more than the work on them. Words end with a zero, numbers are doubles with
-- the lowest byte first:
--
--   op        charge, renew, record, deny, look, set, refund or reset; renew is a charge that is likely to be denied
--   times     how often each request is taken; 0 for `look`
--   counters  the number of keys of a request
--   requests  the number of requests
--   and for each counter of a request:
--     units, one, other
--              charge, renew: the units to take, as a word of digits; their limit; the count above which denials count
--              record: the units to take, room or not;  deny: the denied units, 0, and as with charge
--              set: 0, and the count to write
--              refund: the units to give back, and the start of their window
--     windows, a, b
--              grid: each b ms, one of them from a on;  open: the same, and the one from a on is probably open;
--              first_hit: b ms from the first unit;  given: from a to b;
--              named: from a to b, and the key names the window;
--              burst: a unit takes a / b ms; the highest level and the highest that is kept follow;
--              sliding: each b ms, one of them from a on;  log: in steps of a ms, for b ms after a step's last one;
--              sorted: the same in a sorted set
--
-- The reply is a flat list of integers, which is cheaper to write and to read than a nested one. It has the time, then
-- for each request and counter the count before the step, or a fault. For a first_hit counter, the end of its window
-- follows. For any other counter whose window has not begun, there are three: LATER, the count, and the end of its
-- window. A bucket has its level. A sliding window has the units of the current window and of the one before, and the
-- start of the current one. A log has the number of its entries, then the step and the units of each. A refund of a
-- window that is not open gives nothing back: CLOSED precedes the rest, or stands alone if the key names the window.
-- The caller computes the new counts from these.
--
-- A counter is an integer that expires a second after its window ends, so its expiry tells its window. If the windows
-- are on a grid and last a second or more, the last 13 digits are the count, and those before them are a number of the
-- window. So one command both charges a counter and finds out whether its window is open. The number decides, because
-- MIGRATE, which moves the remaining life of a key, may shift the expiry. If the key names the window, other programs
-- may share the counter and let it expire later; its expiry then tells nothing.
--
-- Of other kinds, the value alone tells the state. A bucket is the instant at which all units are back, in milliseconds
-- and seven digits that are rounded up. A sliding window is its start, the units in it and, if there are some, those of
-- the window before. A log is its first step and the units in it, and then the distance to each next step and its
-- units. They expire a second after nothing counts any more. Where another program shares a log, it is a sorted set: a
-- member for each unit, whose score is its millisecond.
--
-- The clock may step back. A step of up to a second reopens nothing: the counter of a closed window still exists, and a
-- counter whose window has not begun stays in it. After a longer step, the first operation on a counter takes it, with
-- its usage, into the window that holds now; otherwise it would be held for the length of the step.

local call, try, from_packed = redis.call, redis.pcall, struct.unpack

-- How long a counter outlives its window, and how far the clock may step back without reopening it.
local GRACE = 1000
local MOST = 1099511627775

-- A window's number is from 1 to NUMBERS, and is multiplied by SPAN, so that a count and the units that are added to it
-- stay below the next number; Lua's integers are exact up to 2^53. Numbers repeat after NUMBERS windows: 15 minutes for
-- windows of a second. If the clock steps back by exactly that long, a counter seems to be in the open window: its
-- usage is right, but a batch may leave its expiry as it is.
local SPAN, NUMBERS, SHORTEST = 1e13, 899, 1000

