local STALE, NO_COUNT, CLOSED = -1, -2, -3
local DECIDED, RENEWED, SETTLED, FORGOTTEN = 1, 2, 3, 4
local LOST, EXPIRED, ENDED, CONFLICT, MOVING, TOO_LATE = -5, -6, -7, -8, -9, -10
-- What PEXPIRETIME says of a key that does not exist, and of one that does not expire.
local NO_KEY, NO_EXPIRY = -2, -1
-- What a record says: the hold lives, or it is settled.
local IS_LIVE, IS_SETTLED = 1, 2
-- How long a settled id is remembered, if its length is not less.
local REMEMBERED = 10000
-- The most units of a hold.
local MOST_UNITS = 1000
-- How many units that have ended a step removes. It removes twice as many as it takes, or they would pile up.
local SWEPT = 100

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local reply, said = { now }, 1
-- Whether a step met a key that an earlier step of this call has deleted, while its slot moves to another server. All
-- that this server says of such a key is that it is not local.
local is_moving = false
local plain_try = try
try = function(...)
  local answer = plain_try(...)
  if type(answer) == 'table' and answer.err and string.find(answer.err, 'non local key', 1, true) then
    is_moving = true
  end
  return answer
end
local others = unusual(now, reply, call, try, GRACE, MOST, SPAN, NUMBERS, SHORTEST, STALE, CLOSED, fit, charged)
local kinds

-- Adds integers to the reply.
local function say(...)
  for i = 1, select('#', ...) do reply[said + i] = select(i, ...) end
  said = said + select('#', ...)
end

-- Takes all after this length from the reply, and says a fault instead.
local function say_instead(length, fault)
  for i = #reply, length + 1, -1 do reply[i] = nil end
  said = length
  say(fault)
end

-- Returns what is asked of one counter of a quota, where the next one begins, and whether its window is not open. A
-- refund may be early.
local function counter_at(packed, at, early)
  local spelt, one, other, windows, a, b, highest, kept
  spelt, one, other, windows, a, b, at = from_packed('<sddsdd', packed, at)
  if windows == 'burst' then highest, kept, at = from_packed('<dd', packed, at) end
  local start, expiry, length, kind
  if windows == 'grid' then
    start = now - (now - a) % b
    expiry, length = start + b + GRACE, b
  elseif windows == 'given' then
    start, expiry, length = a, b + GRACE, b - a
  elseif windows == 'first_hit' then
    length = b
  else
    kind = windows
    if not kinds then
      local _, make_kinds = other_kinds(now, call, try, GRACE, fit, charged)
      kinds = make_kinds()
    end
  end
  local asked = { spelt + 0, one, other, windows, expiry, length }
  asked.unit, asked.one, asked.other, asked.start = spelt + 0, one, other, start
  asked.kind, asked.a, asked.b, asked.highest, asked.kept = kind, a, b, highest, kept
  return asked, at, windows == 'given' and (now < a - early or now >= b)
end

-- Returns the members of so many units of a hold.
local function members(id, units)
  local names = { id }
  for i = 2, units do names[i] = id .. i end
  return names
end

-- Sets when a counter in flight expires, if it does so before its last unit ends. `ends` is when a unit ends, and
-- `expires` what PEXPIRETIME said.
local function expire(name, ends, expires)
  if expires == NO_EXPIRY then ends = math.max(ends, call('ZRANGE', name, 0, 0, 'REV', 'WITHSCORES')[2]) end
  if expires < ends + GRACE then call('PEXPIREAT', name, ends + GRACE) end
end

-- Returns how many units of a counter in flight are live, when it expires, and how many have ended but are still there.
-- Returns nil if it is no counter. After a step back of the clock, brings units that would live too long back to the
-- longest length.
local function live_units(name, flight)
  local all = try('ZCARD', name)
  if type(all) ~= 'number' then return nil end
  if all == 0 then return 0, NO_KEY, 0 end
  local live = call('ZCOUNT', name, now + 1, '+inf')
  if live == 0 then return 0, NO_KEY, all end
  local expires, latest = call('PEXPIRETIME', name), now + flight.longest
  if expires > latest + GRACE then
    for _, member in ipairs(call('ZRANGE', name, latest + 1, '+inf', 'BYSCORE', 'LIMIT', 0, SWEPT)) do
      call('ZADD', name, 'XX', latest, member)
    end
    expires = call('ZRANGE', name, 0, 0, 'REV', 'WITHSCORES')[2] + GRACE
    call('PEXPIREAT', name, expires)
  end
  return live, expires, all - live
end

-- Returns the record of an id, or nil if it has none or it has ended, or a fault.
local function read_record(name)
  local value = try('GET', name)
  if not value then return nil end
  if type(value) ~= 'string' or #value < 34 then return nil, NO_COUNT end
  local binding, attempt, state, ends, at = from_packed('<c16c8Bd', value)
  if not (ends > now) then return nil end
  return { binding = binding, attempt = attempt, state = state, ends = ends, rest = string.sub(value, at) }
end

local function write_record(name, record)
  local head = struct.pack('<c16c8Bd', record.binding, record.attempt, record.state, record.ends)
  call('SET', name, head .. record.rest, 'PXAT', record.ends + GRACE)
end

-- Says what a repeated answer has to be read with: the bounds of a window that the step named, or the numbers of a
-- bucket. Both may be others by then.
local function say_windows(counter)
  if counter[4] == 'given' then say(counter.a, counter.b) end
  if counter[4] == 'burst' then say(counter.a, counter.b, counter.highest, counter.kept) end
end

-- Writes the expiry that a record has. A server that is out of memory refuses this never, and after it no other write
-- of the call.
local function begin_write(name, record) call('PEXPIREAT', name, record.ends + GRACE) end

-- Returns the integers of the reply after this length.
local function rest_of_reply(length)
  local rest = {}
  for i = length + 1, said do rest[i - length] = reply[i] end
  return cmsgpack.pack(rest)
end

-- Repeats the first answer to a step.
local function repeat_answer(rest)
  for _, integer in ipairs(cmsgpack.unpack(rest)) do say(integer) end
end

-- Decides a hold whose id is not known. `asked` has what is asked of each counter of a quota.
local function decide(hold, key, asked, may_write)
  local begun, counts, expiries, swept, has_room = said, {}, {}, {}, true
  for i, flight in ipairs(hold.flights) do
    local units = flight.units > 0 and flight.units or 1
    local ended
    counts[i], expiries[i], ended = live_units(KEYS[key + 1 + i], flight)
    if not counts[i] then return say(NO_COUNT) end
    swept[i] = may_write and math.min(ended, math.max(SWEPT, 2 * math.min(units, MOST_UNITS))) or 0
    has_room = has_room and units <= MOST_UNITS and counts[i] + units <= flight.limit
  end
  say(DECIDED, 0, 0)
  for _, units in ipairs(swept) do say(units) end
  local decided = said
  say(now)
  for i, count in ipairs(counts) do say(hold.flights[i].limit, count) end
  for _, counter in ipairs(asked) do
    say_windows(counter)
  end
  local admitted, fault = 1, nil
  if #asked > 0 then
    local op = may_write and (has_room and 'charge' or 'deny') or 'look'
    local times = may_write and 1 or 0
    said, admitted, fault =
      others.take_several(said, op, times, 1, key + 1 + #hold.flights, #asked, asked, kinds)
  end
  if fault then return say_instead(begun, fault) end
  -- Only now: of a step that fails, nobody would learn how many there were.
  for i, units in ipairs(swept) do
    if units > 0 then call('ZPOPMIN', KEYS[key + 1 + i], units) end
  end
  if not (may_write and has_room and admitted == 1) then return end
  reply[begun + 3] = 1
  local ends = now + hold.length
  for i, flight in ipairs(hold.flights) do
    local name = KEYS[key + 1 + i]
    if flight.units == 1 then
      call('ZADD', name, ends, hold.id)
    elseif flight.units > 1 then
      local units = {}
      for _, member in ipairs(members(hold.id, flight.units)) do
        units[#units + 1], units[#units + 2] = ends, member
      end
      call('ZADD', name, unpack(units))
    end
    if flight.units > 0 then expire(name, ends, expiries[i]) end
  end
  hold.state, hold.ends, hold.rest = IS_LIVE, ends, rest_of_reply(decided)
  write_record(KEYS[key + 1], hold)
end

-- Starts the length of a hold that lives again. Returns the answer to a renewal, or a fault.
local function start_again(record, hold, key)
  local ends, answer = now + hold.length, RENEWED
  local live = {}
  for i, flight in ipairs(hold.flights) do
    local names, scores = members(hold.id, flight.units), {}
    if flight.units > 0 then scores = try('ZMSCORE', KEYS[key + 1 + i], unpack(names)) end
    if scores.err then return NO_COUNT end
    live[i] = {}
    for unit = 1, flight.units do
      if scores[unit] and scores[unit] + 0 > now then
        live[i][#live[i] + 1], live[i][#live[i] + 2] = ends, names[unit]
      else
        answer = LOST
      end
    end
  end
  begin_write(KEYS[key + 1], record)
  for i, units in ipairs(live) do
    local name = KEYS[key + 1 + i]
    if #units > 0 then
      expire(name, ends, call('PEXPIRETIME', name))
      call('ZADD', name, 'XX', unpack(units))
    end
  end
  record.ends = ends
  write_record(KEYS[key + 1], record)
  return answer
end

local function reserve(hold, key, asked, is_stale)
  local record, fault = read_record(KEYS[key + 1])
  if fault then return say(fault) end
  if record and record.binding ~= hold.binding then return say(CONFLICT) end
  if record and record.state ~= IS_LIVE then return say(ENDED) end
  if record then
    record.attempt = hold.attempt
    local answer = start_again(record, hold, key)
    if answer == NO_COUNT then return say(answer) end
    say(DECIDED, 1, 1)
    return repeat_answer(record.rest)
  end
  if now >= hold.before then return say(TOO_LATE) end
  if is_stale then return say(STALE) end
  -- Without any unit of a limit in flight, it only asks.
  local may_write = #hold.flights == 0
  for _, flight in ipairs(hold.flights) do may_write = may_write or flight.units > 0 end
  decide(hold, key, asked, may_write)
end

local function renew(hold, key)
  local record, fault = read_record(KEYS[key + 1])
  if fault or not record then return say(fault or EXPIRED) end
  if record.binding ~= hold.binding then return say(CONFLICT) end
  if record.state ~= IS_LIVE then return say(ENDED) end
  say(start_again(record, hold, key))
end

-- Returns how much is used of a counter of a quota, or a fault with which it cannot be adjusted now.
local function used_of(name, counter)
  if counter.kind then
    local found = kinds.read(name, counter)
    return found and found.used, not found and NO_COUNT or nil
  end
  local count, ends, due = others.read(name, counter[4], counter[5], counter[6])
  -- Before a window begins, only a counter that is in it already can give anything back.
  local is_early = counter.op == 'refund' and counter[4] == 'given' and now < counter.a and ends ~= due
  return count, not count and NO_COUNT or is_early and STALE or nil
end

-- Returns a digest of what is asked of each counter, without its window and limit, which may change meanwhile.
local function adjustments_digest(asked)
  local each = {}
  for i, counter in ipairs(asked) do
    local mark = counter.op == 'refund' and counter.one or 0
    each[i] = struct.pack('<dsdd', counter.number, counter.op, counter.unit, mark)
  end
  return redis.sha1hex(table.concat(each))
end

-- Settles a hold, and remembers the answer unless it is undone.
local function settle(op, hold, key, asked, is_stale)
  local record, fault = read_record(KEYS[key + 1])
  if fault or not record then return say(fault or EXPIRED) end
  if record.binding ~= hold.binding then return say(CONFLICT) end
  if op == 'undo' and (record.state ~= IS_LIVE or record.attempt ~= hold.attempt) then return say(EXPIRED) end
  local made = adjustments_digest(asked)
  if record.state ~= IS_LIVE then
    if string.sub(record.rest, 1, #made) ~= made then return say(CONFLICT) end
    say(SETTLED, 1)
    return repeat_answer(string.sub(record.rest, #made + 1))
  end
  if is_stale then return say(STALE) end
  local first = key + 1 + #hold.flights
  for i, counter in ipairs(asked) do
    local used, fault = used_of(KEYS[first + i], counter)
    if fault then return say(fault) end
    if counter.op == 'cap' then
      counter.unit = math.min(counter.unit, math.max(0, counter.one - used))
      counter[1], counter.op = counter.unit, 'record'
    end
  end
  begin_write(KEYS[key + 1], record)
  for i, flight in ipairs(hold.flights) do
    if flight.units > 0 then try('ZREM', KEYS[key + 1 + i], unpack(members(hold.id, flight.units))) end
  end
  local begun = said
  say(SETTLED, 0, now, #asked)
  for i, counter in ipairs(asked) do
    say(counter.number, counter.op == 'refund' and 0 or 1, counter.unit, counter.op == 'refund' and counter.one or 0)
    say_windows(counter)
    local at = first + i - 1
    if counter.kind then
      said = kinds.singles(reply, said, counter.op, 1, 1, at, counter)
    elseif counter.op == 'refund' then
      said = others.change_singles(
        said, 'refund', 1, at, counter.unit, counter.one, counter[4], counter.start, counter[5], counter[6]
      )
    else
      said = others.take_several(said, 'record', 1, 1, at, 1, { counter })
    end
  end
  if op == 'undo' then return call('DEL', KEYS[key + 1]) end
  record.state, record.ends = IS_SETTLED, now + math.min(REMEMBERED, hold.length)
  record.rest = made .. rest_of_reply(begun + 2)
  write_record(KEYS[key + 1], record)
end

local function reset(name, flight)
  local live = live_units(name, flight) or 0
  -- What is not local, an earlier step has deleted. All other refusals are errors: the units may live.
  if not is_moving then call('DEL', name) end
  say(FORGOTTEN, live)
end

local key = 0
for step = 1, #ARGV do
  local op, id, binding, attempt, length, before, flights, counters, at =
    from_packed('<sc16c16c8dddd', ARGV[step])
  local begun = said
  is_moving = false
  local hold = { id = id, binding = binding, attempt = attempt, length = length, before = before, flights = {} }
  for i = 1, flights do
    local units, limit, longest
    units, limit, longest, at = from_packed('<ddd', ARGV[step], at)
    hold.flights[i] = { units = units, limit = limit, longest = longest }
  end
  local asked, is_stale, number, adjustment = {}, false, nil, nil
  for i = 1, counters do
    if op == 'settle' or op == 'undo' then number, adjustment, at = from_packed('<ds', ARGV[step], at) end
    local counter, is_closed
    counter, at, is_closed = counter_at(ARGV[step], at, adjustment == 'refund' and GRACE or 0)
    counter.number, counter.op = number, adjustment
    asked[i], is_stale = counter, is_stale or is_closed
  end
  if op == 'reserve' then
    reserve(hold, key, asked, is_stale)
  elseif op == 'look' then
    if is_stale then say(STALE) else decide(hold, key, asked, false) end
  elseif op == 'renew' then
    renew(hold, key)
  elseif op == 'settle' or op == 'undo' then
    settle(op, hold, key, asked, is_stale)
  elseif op == 'reset' then
    reset(KEYS[key + 1], hold.flights[1])
  else
    error('there is no operation ' .. op)
  end
  if is_moving and reply[begun + 1] == NO_COUNT then reply[begun + 1] = MOVING end
  key = key + (op == 'reset' and 1 or 1 + flights + counters)
end
return cmsgpack.pack(reply)
