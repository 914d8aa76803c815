-- Takes many requests in one step, one after another, at one reading of the clock. Each is all or nothing. Several
-- counters are all read before the first write. A single one may be charged before it is checked; if it had no room, that
-- is undone in the same step.
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
--              first_hit: b ms from the first unit;  given: from a to b;  named: from a to b, and the key names the window
--
-- The reply is a flat list of integers, which is cheaper to write and to read than a nested one. It has the time, then
-- for each request and counter the count before the step, or a fault. For a first_hit counter, the end of its window
-- follows. For any other counter whose window has not begun, there are three: LATER, the count, and the end of its
-- window. A refund of a window that is not open gives nothing back: CLOSED precedes the rest, or stands alone if the key
-- names the window. The caller computes the new counts from these.
--
-- A counter is an integer that expires a second after its window ends, so its expiry tells its window. If the windows are
-- on a grid and last a second or more, the last 13 digits are the count, and those before them are a number of the window.
-- So one command both charges a counter and finds out whether its window is open. The number decides, because MIGRATE,
-- which moves the remaining life of a key, may shift the expiry. If the key names the window, other programs may share the
-- counter and let it expire later; its expiry then tells nothing.
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
-- windows of a second. If the clock steps back by exactly that long, a counter seems to be in the open window: its usage is
-- right, but a batch may leave its expiry as it is.
local SPAN, NUMBERS, SHORTEST = 1e13, 899, 1000

-- The usual call, above all on a Cluster: one charge of one counter of the open window. The counter's remaining life and
-- its expiry tell the time and the window. If the caller expects a window to be open, the life and the window's number
-- prove that it is, and the expiry need not be asked for. The loops below would give the same answer, but their many steps
-- cost as much as a command. A new counter, a denial, an error and an expiry that is off go on there.
local first_ends, left, undone
if #KEYS == 1 then
  local op, times, _, _, spelt, limit, counted, windows, a, b = from_packed('<sdddsddsdd', ARGV[1])
  -- It is nearly always 1, and to compare is cheaper than to parse.
  local units = times == 1 and spelt == '1' and 1 or times * spelt
  if op == 'charge' and (windows == 'grid' or windows == 'open' and b >= SHORTEST) and units > 0 and units <= limit then
    local start = a
    if windows == 'grid' then
      first_ends = call('PEXPIRETIME', KEYS[1])
      start = first_ends - b - GRACE
    end
    left = call('PTTL', KEYS[1])
    if left > GRACE and left <= b + GRACE and (start - a) % b == 0 then
      if times > 1 then spelt, counted = string.format('%.0f', units), MOST end
      local after = tonumber(try('INCRBY', KEYS[1], spelt))
      if after then
        -- Rounded down: math.floor would be a call.
        local nth = start / b
        local sum = after - (b >= SHORTEST and ((nth - nth % 1) % NUMBERS + 1) * SPAN or 0)
        if sum >= units and (sum <= limit or sum > counted and sum <= MOST) then
          return cmsgpack.pack({ start + b + GRACE - left, sum - units })
        end
        call('INCRBY', KEYS[1], '-' .. spelt)
        undone = string.format('%.0f', after - units)
      end
    end
  end
end

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

-- Everything off the fast path. Lua creates functions at each call of a script, and few calls need these. This function
-- captures no variables, because each one would have to be created as well.
local function unusual(now, reply, call, try, GRACE, MOST, SPAN, NUMBERS, SHORTEST, STALE, CLOSED)
  local NO_COUNT, LATER = -2, -4
  -- PEXPIRETIME of a key that stays.
  local NO_EXPIRY = -1

  -- Returns the number of the window whose counter expires then, multiplied, or 0 if it has none.
  local function number(windows, due, length)
    if windows ~= 'grid' or length < SHORTEST then return 0 end
    return (math.floor((due - GRACE) / length - 1) % NUMBERS + 1) * SPAN
  end

  -- Returns a counter's count, its expiry (nil if it does not exist), the expiry that it should have (that of the window
  -- it stays in, else of the one that holds or would open now), and its number, multiplied. Returns nil if the value is
  -- not a count. `value` is the counter's value, if already known.
  local function read(key, windows, expiry, length, value)
    local due = expiry or now + length + GRACE
    value = value or try('GET', key)
    if not value then return 0, nil, due end
    -- GET fails on other types; treat that as "not a count". INCRBY demands this spelling, which is never that of -0.
    local whole = tonumber(value)
    if not whole or string.format('%.0f', whole + 0) ~= value then return nil end
    local count, has_number = whole % SPAN, windows == 'grid' and length >= SHORTEST
    if not (whole >= 0 and whole < (has_number and (NUMBERS + 1) * SPAN or SPAN)) then return nil end
    if has_number and count > MOST then return nil end
    local ends, held = call('PEXPIRETIME', key), whole - count
    if held > 0 then
      if held == number(windows, due, length) then return count, ends, due, held end
      -- The next window has begun, for a clock that has stepped back since.
      if held == number(windows, due + length, length) and due <= now + 2 * GRACE then
        return count, ends, due + length, held
      end
      if ends <= due or held == number(windows, due - length, length) then
        if ends == NO_EXPIRY then call('DEL', key) end
        return 0, nil, due
      end
    elseif ends ~= due then
      local stays = ends > due
      if windows == 'grid' then
        stays = stays and ends <= now + length + 2 * GRACE and (ends - due) % length == 0
      elseif windows == 'first_hit' then
        stays = ends > now + GRACE and ends <= due + GRACE
      elseif windows == 'given' then
        -- For a calendar, only the window that holds now is known. The next one begins at its end, and is less than half
        -- as long again; the one after that ends later.
        stays = stays and due <= now + 2 * GRACE and ends - due < 1.5 * length
      end
      if stays then
        due = ends
      elseif windows ~= 'named' and ends ~= NO_EXPIRY and ends <= now + GRACE then
        return 0, nil, due
      end
    end
    return count, ends, due, held
  end

  -- Returns how many times, up to `times`, a unit fits into the room.
  local function fit(times, unit, room)
    if room < (unit > 0 and unit or 1) then return 0 end
    if room >= unit * times then return times end
    return math.floor(room / unit)
  end

  -- Returns the count after this many charges and denials.
  local function charged(count, unit, admitted, denied, counted)
    count = count + admitted * unit
    if denied > 0 and unit > 0 and count + unit > counted then count = count + denied * unit end
    return count <= MOST and count or MOST
  end

  -- Changes a counter from `before` to `after`, until it is due, with the number of that window.
  local function write(key, before, after, ends, due, held, windows, length)
    if not ends and after == before then return end
    local wanted = number(windows, due, length)
    if ends == due and held == wanted then
      if after ~= before then call('INCRBY', key, after - before) end
    else
      call('SET', key, string.format('%.0f', wanted + after), 'PXAT', due)
    end
  end

  -- Adds a counter's previous count or a fault to the reply, with the end of its window if the caller cannot know it.
  -- Returns the new length of the reply, as its callers do.
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

  -- Charges or looks at one counter. `value` is its value, if already known.
  local function charge_single(said, name, value, times, unit, limit, counted, windows, expiry, length)
    local count, ends, due, held = read(name, windows, expiry, length, value)
    if count then
      local admitted = fit(times, unit, limit - count)
      local after = charged(count, unit, admitted, times - admitted, counted)
      write(name, count, after, ends, due, held, windows, length)
    end
    return say(said, count or NO_COUNT, windows, expiry, due)
  end

  -- Writes a count.
  local function set(key, used, windows, expiry, length)
    local count, ends, due, held = read(key, windows, expiry, length)
    if not count then return NO_COUNT end
    write(key, count, used, ends, due, held, windows, length)
    return count, due
  end

  -- Forgets a counter.
  local function reset(key, expiry, length)
    call('DEL', key)
    return 0, expiry or now + length + GRACE
  end

  -- Gives back units, at most the usage, if the window has this start. The last result says that it has not.
  local function refund(key, units, named, windows, start, expiry, length)
    local count, ends, due, held = read(key, windows, expiry, length)
    if not count then return NO_COUNT end
    -- Before the window begins, only a counter that is already in it can give anything back. The state of the window
    -- that holds now is told only to callers that name that one.
    if windows == 'given' and now < start and ends ~= due then return STALE end
    local begins = start
    if windows == 'given' and due ~= expiry then
      begins = expiry - GRACE
    elseif windows ~= 'named' then
      begins = due - GRACE - length
    end
    local is_meant = begins == named
    local given = is_meant and units or 0
    -- Even without a refund, the counter may have to move into the window that holds now, after a long step back.
    write(key, count, count > given and count - given or 0, ends, due, held, windows, length)
    return count, due, not is_meant
  end

  -- Sets, refunds or resets one counter for each request.
  local function change_singles(said, op, requests, key, unit, one, windows, start, expiry, length)
    for key = key + 1, key + requests do
      local count, due, is_closed
      if op == 'set' then
        count, due = set(KEYS[key], one, windows, expiry, length)
      elseif op == 'reset' then
        count, due = reset(KEYS[key], expiry, length)
      elseif op == 'refund' then
        count, due, is_closed = refund(KEYS[key], unit, one, windows, start, expiry, length)
      else
        error('there is no operation ' .. op)
      end
      if is_closed then
        said = said + 1
        reply[said] = CLOSED
      end
      said = say(said, count, windows, expiry, due)
    end
    return said
  end

  -- Returns how many times, up to `times`, an operation takes its unit.
  local function admit(op, times, unit, room)
    if op == 'record' then return times end
    if op == 'deny' then return 0 end
    if op == 'charge' or op == 'renew' or op == 'look' then return fit(times, unit, room) end
    error('there is no operation ' .. op)
  end

  -- Charges, records, denies or looks at several counters for each request. `asked` has the unit, limit, counted,
  -- windows, expiry and length of each counter.
  local function take_several(said, op, times, requests, key, counters, asked)
    local count, ends, due, held = {}, {}, {}, {}
    for _ = 1, requests do
      local admitted, fault = times, nil
      for i = 1, counters do
        local unit, limit, _, windows, expiry, length = unpack(asked[i], 1, 6)
        count[i], ends[i], due[i], held[i] = read(KEYS[key + i], windows, expiry, length)
        if not count[i] then
          fault = NO_COUNT
        else
          admitted = admit(op, admitted, unit, limit - count[i])
        end
      end
      for i = 1, counters do
        local unit, _, counted, windows, expiry, length = unpack(asked[i], 1, 6)
        if not fault then
          local after = charged(count[i], unit, admitted, times - admitted, counted)
          write(KEYS[key + i], count[i], after, ends[i], due[i], held[i], windows, length)
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
  -- Unpacks the first counter, which is nearly always the only one, together with the fields before it.
  local op, times, counters, requests, spelt, one, other, windows, a, b, at =
    from_packed('<sdddsddsdd', ARGV[group])
  local asked, stale = nil, false
  local unit, start, expiry, length
  -- The number of the window, multiplied, and whether it need not be compared with the expiry.
  local number, suffices = 0, false
  for i = 1, counters do
    if i > 1 then spelt, one, other, windows, a, b, at = from_packed('<sddsdd', ARGV[group], at) end
    unit = spelt + 0
    local is_open = windows == 'open'
    if windows == 'grid' or is_open then
      windows, start = 'grid', now - (now - a) % b
      expiry, length = start + b + GRACE, b
      local nth = start / b
      number = b >= SHORTEST and ((nth - nth % 1) % NUMBERS + 1) * SPAN or 0
      suffices = is_open and number > 0
    elseif windows == 'first_hit' then
      start, expiry, length = nil, nil, b
    else
      start, expiry, length = a, b + GRACE, b - a
      -- After a step back, a refund may name a window that has not begun.
      stale = stale or now < a - (op == 'refund' and GRACE or 0) or now >= b
    end
    if counters > 1 or op == 'record' or op == 'deny' then
      asked = asked or {}
      asked[i] = { unit, one, other, windows, expiry, length }
    end
  end
  if not stale and not asked and (op == 'charge' or op == 'renew' or op == 'look') then
    local limit, counted = one, other
    local all = unit * times
    if times > 1 then spelt = string.format('%.0f', all) end
    local is_usual = op == 'charge' and not undone and expiry and all > 0 and all <= limit
    local counts = times == 1
    -- All keys differ. One command for all is a third of the work. For types other than strings it answers nil, as if the
    -- key did not exist.
    local values = not is_usual and requests > 1 and call('MGET', unpack(KEYS, key + 1, key + requests))
    for i = 1, requests do
      local name, value, count = KEYS[key + i], values and values[i] or undone, nil
      if is_usual then
        -- The fast path: a new counter, or one of this window, which is charged before it is read: one command less.
        -- INCRBY leaves a value that is not an integer unchanged.
        local ends = key + i == 1 and first_ends or not suffices and call('PEXPIRETIME', name)
        local after = (not ends or ends == expiry) and tonumber(try('INCRBY', name, spelt))
        local sum = after and after - number
        if ends == NO_KEY or not ends and after == all then
          local text = string.format('%.0f', number + all)
          local is_set = not ends and try('SET', name, text, 'PXAT', expiry).ok
          if not is_set then
            -- INCRBY has created it without an expiry. The error of SET is raised here.
            if not ends then call('DEL', name) end
            call('SET', name, text, 'PXAT', expiry)
          end
          count = 0
        elseif after and sum >= all and (sum <= limit or counts and sum > counted and sum <= MOST) then
          count = sum - all
        elseif after then
          call('INCRBY', name, '-' .. spelt)
          value = string.format('%.0f', after - all)
        end
      end
      if count then
        said = said + 1
        reply[said] = count
      else
        others = others or unusual(now, reply, call, try, GRACE, MOST, SPAN, NUMBERS, SHORTEST, STALE, CLOSED)
        said = others.charge_single(said, name, value, times, unit, limit, counted, windows, expiry, length)
      end
    end
  else
    others = others or unusual(now, reply, call, try, GRACE, MOST, SPAN, NUMBERS, SHORTEST, STALE, CLOSED)
    if stale then
      -- If the key names the window, a refund cannot concern another one.
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
