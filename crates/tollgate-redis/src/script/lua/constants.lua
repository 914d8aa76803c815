local call, try, from_packed = redis.call, redis.pcall, struct.unpack

-- How long a counter outlives its window, and how far the clock may step back without reopening it.
local GRACE = 1000
local MOST = 1099511627775

-- A window's number is from 1 to NUMBERS, and is multiplied by SPAN, so that a count and the units that are added to it
-- stay below the next number; Lua's integers are exact up to 2^53. Numbers repeat after NUMBERS windows: 15 minutes for
-- windows of a second. If the clock steps back by exactly that long, a counter seems to be in the open window: its
-- usage is right, but a batch may leave its expiry as it is.
local SPAN, NUMBERS, SHORTEST = 1e13, 899, 1000

