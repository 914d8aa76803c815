
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

-- Buckets, sliding windows and logs. Like the rest of what is unusual, this captures no variables but the two functions
-- above.
local function other_kinds(now, call, try, GRACE, fit, charged)
  local MOST_LOGGED, MOST_ENTRIES, MOST_MEMBERS = 16777215, 256, 1024

  -- Of each kind, a value in which nothing counts any more is deleted if it has not expired by itself: another program
  -- has removed its expiry.

  -- Returns a bucket: how much is used, and its level, the time until all units are back in parts of a millisecond.
  -- Returns nil if the value is none. A level above what is kept is lowered to the highest, which a step has to write.
  local function bucket(value, unit_time, parts, highest, kept)
    if not value then return { used = 0, level = 0 } end
    if type(value) ~= 'string' then return nil end
    local whole, digits = string.match(value, '^(%d+)%.?(%d*)$')
    if not whole or #whole > 15 or #digits ~= 0 and #digits ~= 7 then return nil end
    local level = (whole - now) * parts
    if digits ~= '' then
      -- Rounded up when it was written, so rounding down gives the parts exactly. What another limit wrote is rounded up.
      local rest = digits * parts % 1e7
      level = level + (digits * parts - rest) / 1e7 + (rest >= parts and 1 or 0)
    end
    if level <= 0 then return { used = 0, level = 0, exists = true, is_moved = now > whole + 1 + GRACE } end
    local is_moved = level > kept
    if is_moved then level = highest end
    return { used = math.ceil(level / unit_time), level = level, exists = true, is_moved = is_moved }
  end

  -- Returns a sliding window: how much is used, the units of the current window and of the one before, and the start of
  -- the current one. Returns nil if the value is none.
  local function sliding(value, origin, length, most)
    local start = now - (now - origin) % length
    local current, previous, exists, is_moved = 0, 0, false, false
    if value then
      if type(value) ~= 'string' then return nil end
      local began, first, second = string.match(value, '^(%d+) (%d+) ?(%d*)$')
      if not began or #began > 15 or #first > 7 or #second > 7 then return nil end
      began, first, second = began + 0, first + 0, second == '' and 0 or second + 0
      if (began - origin) % length ~= 0 or first > most or second > most then return nil end
      exists = true
      if began == start or began > start and began <= now + GRACE then
        start, current, previous = began, first, second
      elseif began + length == start then
        previous = first
      elseif began > start then
        current, is_moved = math.min(first + second, most), true
      else
        is_moved = now > began + 2 * length + GRACE
      end
    end
    local left = length - math.max(now - start, 0)
    local used = current + math.ceil(previous * left / length)
    return { used = used, current = current, previous = previous, start = start, exists = exists, is_moved = is_moved }
  end

  -- Returns a log: how much is used, and its steps and their units, the oldest first. Returns nil if the value is none.
  -- Steps after the current one, which a clock that has stepped back leaves, are moved into it.
  local function log(value, step, length)
    local steps, units, count, used, is_moved = {}, {}, 0, 0, false
    if value then
      if type(value) ~= 'string' then return nil end
      local current, at, before, read = math.floor(now / step), 0, -1, 0
      for distance, number in string.gmatch(value, '(%d+) (%d+)') do
        if #distance > 15 or #number > 8 then return nil end
        read = read + #distance + #number + 2
        at, number = at + distance, number + 0
        if at <= before or number < 1 then return nil end
        before = at
        local ahead = at > current
        if now < (at + 1) * step - 1 + length then
          if not (ahead and steps[count] == current) then
            count = count + 1
            steps[count], units[count] = ahead and current or at, 0
          end
          units[count] = units[count] + number
          used = used + number
          is_moved = is_moved or ahead
        end
      end
      -- The pairs, with one space between any two numbers, are all of it.
      if read ~= #value + 1 or count > MOST_ENTRIES or used > MOST_LOGGED then return nil end
      is_moved = is_moved or count == 0 and now > (at + 1) * step - 1 + length + GRACE
    end
    return { used = used, steps = steps, units = units, count = count, exists = value, is_moved = is_moved }
  end

  -- Returns a log whose units are members of a sorted set with these scores, the oldest first. Members after the current
  -- millisecond, which a clock that is ahead leaves, are moved into it. Returns nil if there are more than are read.
  local function sorted_log(found, step)
    if #found > 2 * MOST_MEMBERS then return nil end
    local steps, units, count, ahead = {}, {}, 0, {}
    for i = 1, #found, 2 do
      local at = math.ceil(found[i + 1])
      if at > now then at, ahead[#ahead + 1] = now, found[i] end
      at = math.floor(at / step)
      if steps[count] ~= at then
        count = count + 1
        steps[count], units[count] = at, 0
      end
      units[count] = units[count] + 1
    end
    -- The oldest of too many leave later, with the next ones.
    local first = math.max(1, count - MOST_ENTRIES + 1)
    for i = 1, first - 1 do units[first] = units[first] + units[i] end
    if first > 1 then steps, units, count = { unpack(steps, first) }, { unpack(units, first) }, MOST_ENTRIES end
    local is_moved = #ahead > 0
    local used = #found / 2
    return { used = used, steps = steps, units = units, count = count, is_moved = is_moved, found = found, ahead = ahead }
  end

  -- Returns the counter that has this value, or none.
  local function counter_of(value, asked)
    if asked.kind == 'burst' then return bucket(value, asked.a, asked.b, asked.highest, asked.kept) end
    if asked.kind == 'log' then return log(value, asked.a, asked.b) end
    if asked.kind == 'sorted' then return sorted_log(value or {}, asked.a) end
    asked.most = asked.most or math.min(1000000, math.floor(4503599627370496 / asked.b))
    return sliding(value, asked.a, asked.b, asked.most)
  end

  -- Returns a counter of one of these kinds. `value` is its value, if already known.
  local function read(key, asked, value)
    if asked.kind == 'sorted' then
      local oldest = string.format('(%.0f', now - asked.b)
      value = try('ZRANGEBYSCORE', key, oldest, '+inf', 'WITHSCORES', 'LIMIT', 0, MOST_MEMBERS + 1)
      return not value.err and counter_of(value, asked) or nil
    end
    -- GET fails on other types; these are no counters.
    return counter_of(value or try('GET', key), asked)
  end

  -- Writes a log in a sorted set that is used so much more. Members are what no other program writes, and what has left
  -- is removed. The set outlives its last unit, as RLaaS has it.
  local function write_sorted(key, length, counter, more)
    call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now - length))
    local score, taken, nth = string.format('%.0f', now), {}, 0
    for _, member in ipairs(counter.ahead) do call('ZADD', key, 'XX', score, member) end
    for i = 1, #counter.found, 2 do taken[counter.found[i]] = true end
    for _ = 1, math.min(more, MOST_MEMBERS - counter.used) do
      local member
      repeat
        member, nth = score .. '-' .. nth, nth + 1
      until not taken[member]
      call('ZADD', key, score, member)
    end
    call('PEXPIRE', key, length + math.max(length, GRACE))
  end

  -- Writes a counter that is used so much more, or so much less.
  local function write(key, asked, counter, more)
    if more == 0 and not counter.is_moved then return end
    if asked.kind == 'sorted' then return write_sorted(key, asked.b, counter, more) end
    if asked.kind == 'burst' then
      local most = math.max(asked.highest, counter.level)
      local level = math.max(0, math.min(counter.level + more * asked.a, most))
      if level == 0 then return call('DEL', key) end
      local parts = level % asked.b
      local whole = now + (level - parts) / asked.b
      if parts == 0 then return call('SET', key, string.format('%.0f', whole), 'PXAT', whole + GRACE) end
      local digits = string.format('%.0f.%07.0f', whole, math.ceil(parts * 1e7 / asked.b))
      return call('SET', key, digits, 'PXAT', whole + 1 + GRACE)
    end
    if asked.kind == 'log' then
      local steps, units, count = counter.steps, counter.units, counter.count
      local current = math.floor(now / asked.a)
      more = math.min(more, MOST_LOGGED - counter.used)
      if more > 0 then
        if steps[count] ~= current then
          count = count + 1
          steps[count], units[count] = current, 0
        end
        units[count] = units[count] + more
      end
      if count == 0 then return call('DEL', key) end
      -- The oldest of too many leave later, with the next ones.
      local first = 1
      while count - first >= MOST_ENTRIES do
        units[first + 1], first = units[first + 1] + units[first], first + 1
      end
      local text, before = {}, 0
      for i = first, count do
        text[#text + 1] = string.format('%.0f %.0f', steps[i] - before, units[i])
        before = steps[i]
      end
      return call('SET', key, table.concat(text, ' '), 'PXAT', (before + 1) * asked.a - 1 + asked.b + GRACE)
    end
    local current = math.min(counter.current + more, asked.most)
    if current == 0 and counter.previous == 0 then return call('DEL', key) end
    local text = string.format('%.0f %.0f', counter.start, current)
    if counter.previous > 0 then text = text .. string.format(' %.0f', counter.previous) end
    call('SET', key, text, 'PXAT', counter.start + 2 * asked.b + GRACE)
  end

  -- Writes a counter after this many charges and denials.
  local function charge(key, asked, counter, admitted, denied)
    local after = charged(counter.used, asked.unit, admitted, denied, asked.other)
    -- A bucket of which the limit was raised may have more units than any charge leads to.
    write(key, asked, counter, math.max(0, after - counter.used))
  end

  -- Writes a counter with exactly this usage.
  local function set(key, asked, counter, used)
    if asked.kind == 'burst' then
      local level = math.min(used * asked.a, asked.highest)
      if level == counter.level and not counter.is_moved then return end
      counter.level, counter.is_moved = level, true
    elseif asked.kind == 'sorted' then
      call('DEL', key)
      return write(key, asked, sorted_log({}, asked.a), used)
    elseif asked.kind == 'log' then
      if not counter.exists and used == 0 then return end
      counter.used, counter.count, counter.steps, counter.units, counter.is_moved = 0, 0, {}, {}, true
      return write(key, asked, counter, used)
    else
      used = math.min(used, asked.most)
      if used == counter.current and counter.previous == 0 and not counter.is_moved then return end
      counter.current, counter.previous, counter.is_moved = used, 0, true
    end
    write(key, asked, counter, 0)
  end

  -- Gives back units of the marked charge, as far as they are still used.
  local function refund(key, asked, counter, units, mark)
    local given = 0
    if asked.kind == 'burst' then
      given = math.min(units, counter.used, math.max(0, math.floor((mark - now) * asked.b / asked.a)))
      write(key, asked, counter, -given)
      return
    end
    if asked.kind == 'sorted' then
      -- As in other logs, all that is after the entry before leaves with the marked one.
      local step, before = math.floor(mark / asked.a), -1
      for i = 1, counter.count do
        if counter.steps[i] == step then given = math.min(units, counter.units[i]) end
        if counter.steps[i] < step then before = counter.steps[i] end
      end
      for i = 1, #counter.found, 2 do
        local at = math.floor(math.min(math.ceil(counter.found[i + 1]), now) / asked.a)
        if at > before and at <= step and given > 0 then
          call('ZREM', key, counter.found[i])
          given = given - 1
        end
      end
      return write(key, asked, counter, 0)
    end
    if asked.kind == 'log' then
      local step = math.floor(mark / asked.a)
      for i = 1, counter.count do
        if counter.steps[i] == step then
          given = math.min(units, counter.units[i])
          counter.units[i] = counter.units[i] - given
          if counter.units[i] == 0 then
            table.remove(counter.steps, i)
            table.remove(counter.units, i)
            counter.count = counter.count - 1
          end
          break
        end
      end
    elseif mark == counter.start then
      given = math.min(units, counter.current)
      counter.current = counter.current - given
    elseif mark + asked.b == counter.start then
      given = math.min(units, counter.previous)
      counter.previous = counter.previous - given
    end
    counter.is_moved = counter.is_moved or given > 0
    write(key, asked, counter, 0)
  end

  -- Adds a counter before the step to the reply, and returns the new length.
  local function say(reply, said, asked, counter)
    if asked.kind == 'burst' then
      reply[said + 1] = counter.level
      return said + 1
    end
    if counter.steps then
      reply[said + 1] = counter.count
      for i = 1, counter.count do reply[said + 2 * i], reply[said + 2 * i + 1] = counter.steps[i], counter.units[i] end
      return said + 2 * counter.count + 1
    end
    reply[said + 1], reply[said + 2], reply[said + 3] = counter.current, counter.previous, counter.start
    return said + 3
  end

  -- Takes requests of one counter each.
  local function singles(reply, said, op, times, requests, key, asked)
    local is_charge = op == 'charge' or op == 'renew' or op == 'look'
    if not (is_charge or op == 'record' or op == 'deny' or op == 'set' or op == 'refund' or op == 'reset') then
      error('there is no operation ' .. op)
    end
    -- All keys differ, which is only true of operations that are merged if they are equal.
    local values = is_charge and requests > 1 and asked.kind ~= 'sorted' and call('MGET', unpack(KEYS, key + 1, key + requests))
    for i = 1, requests do
      local name = KEYS[key + i]
      local counter = read(name, asked, values and values[i])
      -- A reset heals what is no counter.
      if not counter and op == 'reset' then counter = counter_of(nil, asked) end
      if not counter then
        said = said + 1
        reply[said] = -2
      else
        said = say(reply, said, asked, counter)
        if op == 'set' then
          set(name, asked, counter, asked.one)
        elseif op == 'reset' then
          call('DEL', name)
        elseif op == 'refund' then
          refund(name, asked, counter, asked.unit, asked.one)
        else
          local admitted = op == 'record' and times or 0
          if is_charge then admitted = fit(times, asked.unit, asked.one - counter.used) end
          charge(name, asked, counter, admitted, times - admitted)
        end
      end
    end
    return said
  end

  return { read = read, charge = charge, say = say, singles = singles }
end
