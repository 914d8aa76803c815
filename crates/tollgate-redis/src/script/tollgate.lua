-- Takes many requests in one step, at one reading of the clock, one after another. Each is all or nothing: all it
-- needs is read and checked before its first write.
--
-- KEYS: the counters, request by request. ARGV: groups of requests that differ in their keys alone:
--
--   op        charge, look, set, refund or reset
--   times     how often each request is taken; 0 for `look`
--   counters  how many keys a request has
--   requests  how many there are
--   and for each of its counters:
--     units    units to take or to give back
--     bound    the limit that charged units must stay within; of `set` the count to write, of `refund` the start of
--              the window it names
--     counted  the least limit that counts denials, or 0
--     windows, a, b
--              grid: each b ms, one of them from a on;  first_hit: b ms from the first unit;  given: from a to b
--
-- The reply is a flat list of integers: the time, then for each request and counter the count before the step (or
-- a fault), and after that of a first_hit counter the end of its window. What a step made of a count, its caller
-- computes from that.
--
-- A counter is an integer that expires a second after its window has ended; that is where its window is kept.

local call, try = redis.call, redis.pcall
local floor, max, min, find = math.floor, math.max, math.min, string.find

local GRACE = 1000
local MOST = 1099511627775
local STALE, NO_COUNT, CLOSED = -1, -2, -3

local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
local reply, said = { now }, 1

-- Of each counter of a group: what is asked, and the window that is open now (nil for first_hit).
local units, bound, counted, length, start, expiry = {}, {}, {}, {}, {}, {}
-- Of each counter of a request: what is used, its expiry as it is (nil if it is not there) and as it has to be.
local used, found, due = {}, {}, {}

local function say(value)
  said = said + 1
  reply[said] = value
end

-- One answer for each counter of a request that was not taken.
local function refuse(counters, fault)
  for i = 1, counters do
    say(fault)
    if not start[i] then say(fault) end
  end
end

-- Makes the counter in place i say so, until it is due.
local function keep(key, i, count)
  if count == used[i] then
    -- A clock that was set back has left it a window too long, or somebody took its expiry away.
    if found[i] and found[i] ~= due[i] then call('PEXPIREAT', key, due[i]) end
  elseif found[i] == due[i] then
    call('INCRBY', key, count - used[i])
  else
    call('SET', key, count, 'PXAT', due[i])
  end
end

-- Reads a counter into place i; false if what is there is no count.
local function read(key, i)
  local value = try('GET', key)
  local count, ends = 0, nil
  if value then
    if type(value) ~= 'string' or #value > 13 then return false end
    if value ~= '0' and not find(value, '^[1-9]%d*$') then return false end
    ends = call('PEXPIRETIME', key)
    if ends == -1 or ends - GRACE > now then
      count = value + 0
    else
      ends = nil
    end
  end
  local must = expiry[i]
  if not must then
    must = now + length[i] + GRACE
    if ends and ends > 0 and ends < must then must = ends end
  end
  used[i], found[i], due[i] = count, ends, must
  return true
end

local at, key = 1, 0
while ARGV[at] do
  local op = ARGV[at]
  local times, counters, requests = ARGV[at + 1] + 0, ARGV[at + 2] + 0, ARGV[at + 3] + 0
  at = at + 4
  local stale = false
  for i = 1, counters do
    local windows, a, b = ARGV[at + 3], ARGV[at + 4] + 0, ARGV[at + 5] + 0
    units[i], bound[i], counted[i] = ARGV[at] + 0, ARGV[at + 1] + 0, ARGV[at + 2] + 0
    at = at + 6
    if windows == 'grid' then
      start[i] = now - (now - a) % b
      expiry[i] = start[i] + b + GRACE
    elseif windows == 'given' then
      start[i], expiry[i] = a, b + GRACE
      stale = stale or now < a or now >= b
    else
      start[i], expiry[i], length[i] = nil, nil, b
    end
  end
  for _ = 1, requests do
    local first = key + 1
    key = key + counters
    local fault = stale and STALE
    if op == 'reset' then
      if not fault then call('DEL', KEYS[first]) end
    elseif not fault then
      for i = 1, counters do
        if not read(KEYS[first + i - 1], i) then fault = NO_COUNT end
      end
    end
    if fault then
      refuse(counters, fault)
    elseif op == 'reset' then
      say(0)
      if not start[1] then say(now + length[1]) end
    else
      local admitted = 0
      if op == 'charge' then
        admitted = times
        for i = 1, counters do
          local unit, room = units[i], bound[i] - used[i]
          if unit == 0 then
            if room < 1 then admitted = 0 end
          elseif room < unit * admitted then
            admitted = room < unit and 0 or floor(room / unit)
          end
        end
      elseif op == 'refund' and (start[1] or due[1] - GRACE - length[1]) ~= bound[1] then
        fault = CLOSED
      end
      local denied = times - admitted
      for i = 1, counters do
        local unit, before = units[i], used[i]
        local after = before
        if op == 'charge' then
          after = before + admitted * unit
          if denied > 0 and unit > 0 and counted[i] > 0 and after + unit > counted[i] then
            after = after + denied * unit
          end
        elseif op == 'set' then
          after = bound[i]
        elseif op == 'refund' and not fault then
          after = max(before - unit, 0)
        end
        keep(KEYS[first + i - 1], i, min(after, MOST))
      end
      for i = 1, counters do
        say(fault or used[i])
        if not start[i] then say(due[i] - GRACE) end
      end
    end
  end
end
return reply
