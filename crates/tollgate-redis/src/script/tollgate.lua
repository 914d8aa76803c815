-- Takes many requests in one step, at one reading of the clock, one after another. Each is all or nothing: all it
-- needs is read and checked before its first write.
--
-- KEYS: the counters, request by request. ARGV: groups of requests that differ in their keys alone, each packed into
-- one text, because ten arguments cost more than what is done with them. Words end with a zero, integers have eight
-- bytes, the lowest first:
--
--   op        charge, record, deny, look, set, refund or reset
--   times     how often each request is taken; 0 for `look`
--   counters  how many keys a request has
--   requests  how many there are
--   and for each of its counters:
--     units, one, other
--              charge: the units to take, as a word of digits; the limit they must stay within; the least limit that
--                counts denials, or 0
--              record: the units to take, room or not;  deny: the units that are denied, 0, and as with charge
--              set: 0, and the count to write
--              refund: the units to give back, and the start of the window that is meant
--     windows, a, b
--              grid: each b ms, one of them from a on;  first_hit: b ms from the first unit;  given: from a to b;
--              named: from a to b, and the key says so
--
-- The reply is a flat list of integers, packed because that costs both sides less: the time, then for each request
-- and counter the count before the step, or a fault. Of a first_hit counter the end of its window comes after that. Of
-- any other counter whose window has not begun, there are three: LATER, the count, and the end of its window. A refund
-- of another window than the open one gives nothing back: CLOSED comes before all that, or alone if the key says the
-- window. What a step made of a count, its caller computes from that.
--
-- A counter is an integer that expires a second after its window has ended; that is where its window is kept. Where
-- the key says it, others may count with us and let it expire later: then that says nothing of the window.
--
-- The clock may step back. By up to a second, it reopens nothing: the counter of a window that has closed is still
-- there, and a counter whose window has not begun stays in it. After a longer step, whatever comes to a counter first
-- takes it, with what it has used, into the window that holds now. Else it would be held for as long as the step was.

local call, try, from_packed = redis.call, redis.pcall, struct.unpack

-- For how long a counter outlives its window, and by how much the clock may step back without reopening it.
local GRACE = 1000
local MOST = 1099511627775
local STALE, NO_COUNT, CLOSED, LATER = -1, -2, -3, -4

-- When a counter expires and how long it has left say together what the time is, and cost less than TIME. An expiry
-- that is none of ours may be too large for a number of Lua.
local first_ends = call('PEXPIRETIME', KEYS[1])
local left = first_ends > 0 and first_ends < 1e15 and call('PTTL', KEYS[1]) or 0
local now
if left > 0 then
  now = first_ends - left
else
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
-- With room for one answer, which nearly every reply has: a table that has to grow costs as much as a packed number.
local reply, said = { now, 0 }, 1

-- All that is not usual. Lua makes functions anew at each call of a script, and nearly no call needs these. This one
-- takes no variable from around it, for each would be one more thing to make.
local function unusual(now, reply, call, try, GRACE, MOST, STALE, NO_COUNT, CLOSED, LATER)
  -- What a counter says, when it expires (nil if it is not there), and when it has to: with the window that it stays
  -- in, else with the one that holds now, or would open now. Nothing if what is there is no count. Last, how the count
  -- is spelt. What it says may be known already.
  local function read(key, windows, expiry, length, value)
    local due = expiry or now + length + GRACE
    value = value or try('GET', key)
    if not value then return 0, nil, due end
    -- GET fails on other types; treat that as "not a count".
    local count = tonumber(value)
    if not count or not (count >= 0 and count < 1e13 and count % 1 == 0) then return nil end
    local ends = call('PEXPIRETIME', key)
    if ends ~= due then
      -- INCRBY will not look at it.
      if tostring(count) ~= value then return nil end
      local stays = ends > due
      if windows == 'grid' then
        stays = stays and ends <= now + length + 2 * GRACE and (ends - due) % length == 0
      elseif windows == 'first_hit' then
        stays = ends > now + GRACE and ends <= due + GRACE
      elseif windows == 'given' then
        -- Of a calendar only the window that holds now is known. The next one begins where it ends, and is longer by
        -- less than a half; the one after that ends later.
        stays = stays and due <= now + 2 * GRACE and ends - due < 1.5 * length
      end
      if stays then
        due = ends
      elseif windows ~= 'named' and ends ~= -1 and ends <= now + GRACE then
        return 0, nil, due
      end
    end
    return count, ends, due, value
  end

  -- How often, out of so many times, so many units fit into this room.
  local function fit(times, unit, room)
    if room < (unit > 0 and unit or 1) then return 0 end
    if room >= unit * times then return times end
    return math.floor(room / unit)
  end

  -- What a counter says once it was charged and then denied so often.
  local function charged(count, unit, admitted, denied, counted)
    count = count + admitted * unit
    if denied > 0 and unit > 0 and counted > 0 and count + unit > counted then count = count + denied * unit end
    return count <= MOST and count or MOST
  end

  -- Adds to a counter so that it says `after`. Says a fault if it cannot: what looked like a number is spelt as INCRBY
  -- does not spell it.
  local function add(key, units, after)
    local sum = try('INCRBY', key, units)
    if sum == after then return nil end
    -- Any other error is the server's, which refuses to write. It does so at the first write or not at all, so nothing
    -- has been written.
    if not string.find(sum.err, 'integer', 1, true) then return call('INCRBY', key, units) end
    return NO_COUNT
  end

  -- Makes a counter that says `before` say `after`, until it is due. Says a fault if it cannot.
  local function write(key, before, after, ends, due)
    if after == before then
      -- A long step back of the clock has left it a window too long, or somebody took its expiry away.
      if ends and ends ~= due then call('PEXPIREAT', key, due) end
    elseif ends ~= due then
      call('SET', key, after, 'PXAT', due)
    else
      return add(key, after - before, after)
    end
  end

  -- Says of a counter what it was, or a fault, and if nobody else knows it, when its window ends. Gives how much is
  -- said by then, as all do that call it.
  local function say(said, answer, windows, expiry, due)
    if windows == 'first_hit' then
      reply[said + 1], reply[said + 2] = answer, answer < 0 and answer or due - GRACE
      return said + 2
    end
    if answer < 0 or due == expiry or windows == 'named' then
      reply[said + 1] = answer
      return said + 1
    end
    reply[said + 1], reply[said + 2], reply[said + 3] = LATER, answer, due - GRACE
    return said + 3
  end

  -- Charges and looks at one counter. What it says may be known already.
  local function charge_single(said, name, value, times, unit, limit, counted, windows, expiry, length)
    local count, ends, due = read(name, windows, expiry, length, value)
    local fault
    if not count then
      fault = NO_COUNT
    else
      local admitted = fit(times, unit, limit - count)
      fault = write(name, count, charged(count, unit, admitted, times - admitted, counted), ends, due)
    end
    return say(said, fault or count, windows, expiry, due)
  end

  -- Writes a count.
  local function set(key, used, windows, expiry, length)
    local count, ends, due = read(key, windows, expiry, length)
    if not count then return NO_COUNT end
    return write(key, count, used, ends, due), count, due
  end

  -- Forgets a counter.
  local function reset(key, expiry, length)
    call('DEL', key)
    return nil, 0, expiry or now + length + GRACE
  end

  -- Gives units back, at most what is used, if the window is the one with this start. The last is whether it is not.
  local function refund(key, units, named, windows, start, expiry, length)
    local count, ends, due = read(key, windows, expiry, length)
    if not count then return NO_COUNT end
    -- Only a counter that is in this window already has anything to give back before it begins. Where it stands in the
    -- window that holds, only who names that one is told.
    if windows == 'given' and now < start and ends ~= due then return STALE end
    local begins = start
    if windows == 'given' and due ~= expiry then
      begins = expiry - GRACE
    elseif windows ~= 'named' then
      begins = due - GRACE - length
    end
    local is_meant = begins == named
    local given = is_meant and units or 0
    -- A counter that is only looked at may belong to the window that holds now, after a long step back of the clock.
    local fault = write(key, count, count > given and count - given or 0, ends, due)
    return fault, count, due, not is_meant and not fault
  end

  -- Sets, refunds and resets one counter each.
  local function change_singles(said, op, requests, key, unit, one, windows, start, expiry, length)
    for key = key + 1, key + requests do
      local fault, count, due, is_closed
      if op == 'set' then
        fault, count, due = set(KEYS[key], one, windows, expiry, length)
      elseif op == 'reset' then
        fault, count, due = reset(KEYS[key], expiry, length)
      elseif op == 'refund' then
        fault, count, due, is_closed = refund(KEYS[key], unit, one, windows, start, expiry, length)
      else
        error('there is no operation ' .. op)
      end
      if is_closed then
        said = said + 1
        reply[said] = CLOSED
      end
      said = say(said, fault or count, windows, expiry, due)
    end
    return said
  end

  -- The limit by which an operation takes its units.
  local function bound(op, limit)
    if op == 'record' then return math.huge end
    if op == 'deny' then return -1 end
    if op == 'charge' or op == 'look' then return limit end
    error('there is no operation ' .. op)
  end

  -- Charges, records, denies and looks at several counters each; `asked` says of every counter in turn its unit, limit,
  -- counted, windows, expiry and length.
  local function take_several(said, op, times, requests, key, counters, asked)
    local count, ends, due, spelt = {}, {}, {}, nil
    for _ = 1, requests do
      local admitted, fault = times, nil
      for i = 1, counters do
        local unit, limit, _, windows, expiry, length = unpack(asked[i], 1, 6)
        count[i], ends[i], due[i], spelt = read(KEYS[key + i], windows, expiry, length)
        -- The first write must not fail after others.
        if not count[i] or (spelt and tostring(count[i]) ~= spelt) then
          fault = NO_COUNT
        else
          admitted = fit(admitted, unit, bound(op, limit) - count[i])
        end
      end
      for i = 1, counters do
        local unit, _, counted, windows, expiry = unpack(asked[i], 1, 5)
        if not fault then
          local after = charged(count[i], unit, admitted, times - admitted, counted)
          write(KEYS[key + i], count[i], after, ends[i], due[i])
        end
        said = say(said, fault or count[i], windows, expiry, due[i])
      end
      key = key + counters
    end
    return said
  end

  return { say = say, charge_single = charge_single, change_singles = change_singles, take_several = take_several }
end
local others
local key = 0
for group = 1, #ARGV do
  -- The first counter, which is nearly always the only one, at one go with what is before it.
  local op, times, counters, requests, spelt, one, other, windows, a, b, at =
    from_packed('<si8i8i8si8i8si8i8', ARGV[group])
  local asked, stale = nil, false
  local unit, start, expiry, length
  for i = 1, counters do
    if i > 1 then spelt, one, other, windows, a, b, at = from_packed('<si8i8si8i8', ARGV[group], at) end
    unit = spelt + 0
    if windows == 'grid' then
      start = now - (now - a) % b
      expiry, length = start + b + GRACE, b
    elseif windows == 'first_hit' then
      start, expiry, length = nil, nil, b
    else
      start, expiry, length = a, b + GRACE, b - a
      -- After a step back, units can be given back in a window that has not begun.
      stale = stale or now < a - (op == 'refund' and GRACE or 0) or now >= b
    end
    if counters > 1 or op == 'record' or op == 'deny' then
      asked = asked or {}
      asked[i] = { unit, one, other, windows, expiry, length }
    end
  end
  if not stale and not asked and (op == 'charge' or op == 'look') then
    local limit, counted = one, other
    -- No two keys are alike. One command for all is a third of the work; for other types than strings it answers nil, as
    -- if the key were not there.
    local values = requests > 1 and call('MGET', unpack(KEYS, key + 1, key + requests))
    local all = unit * times
    if times > 1 then spelt = string.format('%.0f', all) end
    local room = limit - all
    local is_usual = expiry and all > 0 and room >= 0
    for i = 1, requests do
      local name, value = KEYS[key + i], nil
      local ends = key + i == 1 and first_ends
      if values then
        value = values[i]
      else
        value = ends ~= -2 and try('GET', name)
      end
      local count = tonumber(value)
      -- Nearly always, what the rest would come to, without its steps: a counter that is there and has room, or a new
      -- one. INCRBY and SET NX change nothing of what is no count.
      local is_taken = false
      if is_usual and count then
        if count >= 0 and count <= room and (ends or call('PEXPIRETIME', name)) == expiry then
          is_taken = try('INCRBY', name, spelt) == count + all
        end
      elseif is_usual and not value then
        is_taken = call('SET', name, spelt, 'PXAT', expiry, 'NX')
      end
      if is_taken then
        said = said + 1
        reply[said] = count or 0
      else
        others = others or unusual(now, reply, call, try, GRACE, MOST, STALE, NO_COUNT, CLOSED, LATER)
        said = others.charge_single(said, name, value, times, unit, limit, counted, windows, expiry, length)
      end
    end
  else
    others = others or unusual(now, reply, call, try, GRACE, MOST, STALE, NO_COUNT, CLOSED, LATER)
    if stale then
      -- A refund whose key says the window is never about another one.
      local fault = op == 'refund' and windows == 'named' and CLOSED or STALE
      for _ = 1, requests do
        for i = 1, counters do
          if asked then windows = asked[i][4] end
          said = others.say(said, fault, windows)
        end
      end
    elseif asked then
      said = others.take_several(said, op, times, requests, key, counters, asked)
    else
      said = others.change_singles(said, op, requests, key, unit, one, windows, start, expiry, length)
    end
  end
  key = key + requests * counters
end
return cmsgpack.pack(reply)
