-- PEXPIRETIME and PTTL of a key that does not exist.
local NO_KEY = -2
-- A key that is not ours may expire too far in the future for a Lua number, which is exact up to here.
local LAST_EXACT = 9007199254740992

-- The expiry of a counter and its remaining life give the time, and cost less than TIME.
if not first_ends then first_ends = left == NO_KEY and NO_KEY or call('PEXPIRETIME', KEYS[1]) end
left = first_ends > 0 and first_ends < LAST_EXACT and (left or call('PTTL', KEYS[1])) or 0
local now
if left > 0 then
  now = first_ends - left
else
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local STALE, CLOSED = -1, -3
-- Sized for one answer, which nearly every reply has: growing a table costs as much as a packed number.
local reply, said = { now, 0 }, 1

