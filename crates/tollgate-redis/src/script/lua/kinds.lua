
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
-- above. Returns a function that charges buckets and sliding windows, and one that makes those for all else.
local function other_kinds(now, call, try, GRACE, fit, charged)
  -- Of each kind, a value in which nothing counts any more is deleted if it has not expired by itself: another program
  -- has removed its expiry.

  -- Returns the digits of an instant. To print one large number takes three times as long, and printed integers may
  -- have 32 bits.
  local function digits(instant)
    local low = instant % 1e6
    return string.format('%d%06d', (instant - low) / 1e6, low)
  end

  -- Returns a bucket's level, the time until all units are back in parts of a millisecond, and whether a step has to
  -- write it. Returns nil if the value is none. A level above what is kept is lowered to the highest.
  local function level_of(value, parts, highest, kept)
    if not value then return 0, false end
    if type(value) ~= 'string' then return nil end
    local whole, fraction = string.match(value, '^(%d+)%.?(%d*)$')
    if not whole or #whole > 15 or #fraction ~= 0 and #fraction ~= 7 then return nil end
    local level = (whole - now) * parts
    if fraction ~= '' then
      -- Rounded up when it was written, so rounding down gives the parts exactly. What another limit wrote is rounded up.
      local rest = fraction * parts % 1e7
      level = level + (fraction * parts - rest) / 1e7 + (rest >= parts and 1 or 0)
    end
    if level <= 0 then return 0, now > whole + 1 + GRACE end
    local is_moved = level > kept
    if is_moved then level = highest end
    return level, is_moved
  end

  local function write_level(key, level, parts)
    if level == 0 then return call('DEL', key) end
    local rest = level % parts
    local whole = now + (level - rest) / parts
    if rest == 0 then return call('SET', key, digits(whole), 'PXAT', digits(whole + GRACE)) end
    local text = string.format('%s.%07d', digits(whole), math.ceil(rest * 1e7 / parts))
    call('SET', key, text, 'PXAT', digits(whole + 1 + GRACE))
  end

  -- Returns what is used of a sliding window, the units of the current window and of the one before, the start of the
  -- current one, and whether a step has to write it. Returns nil if the value is none.
  local function sliding_of(value, origin, length, most)
    local start = now - (now - origin) % length
    local current, previous, is_moved = 0, 0, false
    if value then
      if type(value) ~= 'string' then return nil end
      local began, first, second = string.match(value, '^(%d+) (%d+) ?(%d*)$')
      if not began or #began > 15 or #first > 7 or #second > 7 then return nil end
      began, first, second = began + 0, first + 0, second == '' and 0 or second + 0
      if (began - origin) % length ~= 0 or first > most or second > most then return nil end
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
    return current + math.ceil(previous * left / length), current, previous, start, is_moved
  end

  local function write_sliding(key, current, previous, start, length)
    if current == 0 and previous == 0 then return call('DEL', key) end
    local text
    if previous > 0 then
      text = string.format('%s %d %d', digits(start), current, previous)
    else
      text = string.format('%s %d', digits(start), current)
    end
    call('SET', key, text, 'PXAT', digits(start + 2 * length + GRACE))
  end

  -- The most units of a sliding window of this length.
  local function most_sliding(length)
    return math.min(1000000, math.floor(4503599627370496 / length))
  end

  -- Charges or looks at buckets or sliding windows, one for each request. The functions for all kinds do the same, but
  -- make a table for each counter, which costs as much as a command.
  local function charge_singles(reply, said, times, requests, key, asked)
    local a, b, unit, limit, counted = asked.a, asked.b, asked.unit, asked.one, asked.other
    local is_burst = asked.kind == 'burst'
    local most = not is_burst and most_sliding(b)
    -- All keys differ, which is only true of operations that are merged if they are equal.
    local values = requests > 1 and call('MGET', unpack(KEYS, key + 1, key + requests))
    for i = 1, requests do
      local name = KEYS[key + i]
      local value = values and values[i] or try('GET', name)
      local used, level, current, previous, start, is_moved
      if is_burst then
        level, is_moved = level_of(value, b, asked.highest, asked.kept)
        used = level and math.ceil(level / a)
      else
        used, current, previous, start, is_moved = sliding_of(value, a, b, most)
      end
      said = said + 1
      reply[said] = not used and -2 or level or current
      if used then
        if not is_burst then
          reply[said + 1], reply[said + 2] = previous, start
          said = said + 2
        end
        local admitted = fit(times, unit, limit - used)
        local more = math.max(0, charged(used, unit, admitted, times - admitted, counted) - used)
        if more == 0 and not is_moved then
          -- Nothing is written.
        elseif is_burst then
          write_level(name, math.min(level + more * a, math.max(asked.highest, level)), b)
        else
          write_sliding(name, math.min(current + more, most), previous, start, b)
        end
      end
    end
    return said
  end

  -- Everything else, which few calls need.
  local function others()
    local MOST_LOGGED, MOST_ENTRIES, MOST_MEMBERS = 16777215, 256, 1024

    -- Returns a log: how much is used, and its steps and their units, the oldest first. Returns nil if the value is
    -- none. Steps after the current one, which a clock that has stepped back leaves, are moved into it.
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

    -- Returns a log whose units are members of a sorted set with these scores, the oldest first. Members after the
    -- current millisecond, which a clock that is ahead leaves, are moved into it. Returns nil if there are more than
    -- are read.
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
      local counter = { used = #found / 2, steps = steps, units = units, count = count, found = found, ahead = ahead }
      counter.is_moved = #ahead > 0
      return counter
    end

    -- Returns the counter that has this value, or none.
    local function counter_of(value, asked)
      if asked.kind == 'burst' then
        local level, is_moved = level_of(value, asked.b, asked.highest, asked.kept)
        return level and { used = math.ceil(level / asked.a), level = level, is_moved = is_moved }
      end
      if asked.kind == 'log' then return log(value, asked.a, asked.b) end
      if asked.kind == 'sorted' then return sorted_log(value or {}, asked.a) end
      asked.most = asked.most or most_sliding(asked.b)
      local used, current, previous, start, is_moved = sliding_of(value, asked.a, asked.b, asked.most)
      return used and { used = used, current = current, previous = previous, start = start, is_moved = is_moved }
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

    -- Writes a log in a sorted set that is used so much more. Members are what no other program writes, and what has
    -- left is removed. The set outlives its last unit, as RLaaS has it.
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
        return write_level(key, math.max(0, math.min(counter.level + more * asked.a, most)), asked.b)
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
        return call('SET', key, table.concat(text, ' '), 'PXAT', digits((before + 1) * asked.a - 1 + asked.b + GRACE))
      end
      write_sliding(key, math.min(counter.current + more, asked.most), counter.previous, counter.start, asked.b)
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
        for i = 1, counter.count do
          reply[said + 2 * i], reply[said + 2 * i + 1] = counter.steps[i], counter.units[i]
        end
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
      local is_read = is_charge and requests > 1 and asked.kind ~= 'sorted'
      local values = is_read and call('MGET', unpack(KEYS, key + 1, key + requests))
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
  return charge_singles, others
end
