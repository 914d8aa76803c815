-- Everything off the fast path. Lua creates functions at each call of a script, and few calls need these. This function
-- captures no variables, because each one would have to be created as well.
local function unusual(now, reply, call, try, GRACE, MOST, SPAN, NUMBERS, SHORTEST, STALE, CLOSED, fit, charged)
  local NO_COUNT, LATER = -2, -4
  -- PEXPIRETIME of a key that stays.
  local NO_EXPIRY = -1

  -- Returns the number of the window whose counter expires then, multiplied, or 0 if it has none.
  local function number(windows, due, length)
    if windows ~= 'grid' or length < SHORTEST then return 0 end
    return (math.floor((due - GRACE) / length - 1) % NUMBERS + 1) * SPAN
  end

  -- Returns a counter's count, its expiry (nil if it does not exist), the expiry that it should have (that of the
  -- window it stays in, else of the one that holds or would open now), and its number, multiplied. Returns nil if the
  -- value is not a count. `value` is the counter's value, if already known.
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
        -- For a calendar, only the window that holds now is known. The next one begins at its end, and is less than
        -- half as long again; the one after that ends later.
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
  -- windows, expiry and length of each counter, or of another kind what the functions for these need: `kinds`. Returns
  -- the new length of the reply, and how often the last request was admitted, or its fault.
  local function take_several(said, op, times, requests, key, counters, asked, kinds)
    local count, ends, due, held = {}, {}, {}, {}
    local admitted, fault
    for _ = 1, requests do
      admitted, fault = times, nil
      for i = 1, counters do
        local unit, limit, _, windows, expiry, length = unpack(asked[i], 1, 6)
        if asked[i].kind then
          held[i] = kinds.read(KEYS[key + i], asked[i])
          count[i] = held[i] and held[i].used
        else
          count[i], ends[i], due[i], held[i] = read(KEYS[key + i], windows, expiry, length)
        end
        if not count[i] then
          fault = NO_COUNT
        else
          admitted = admit(op, admitted, unit, limit - count[i])
        end
      end
      for i = 1, counters do
        local unit, _, counted, windows, expiry, length = unpack(asked[i], 1, 6)
        if not fault then
          if asked[i].kind then
            said = kinds.say(reply, said, asked[i], held[i])
            kinds.charge(KEYS[key + i], asked[i], held[i], admitted, times - admitted)
          else
            local after = charged(count[i], unit, admitted, times - admitted, counted)
            write(KEYS[key + i], count[i], after, ends[i], due[i], held[i], windows, length)
          end
        end
        if fault or not asked[i].kind then said = say(said, fault or count[i], windows, expiry, due[i]) end
      end
      key = key + counters
    end
    return said, admitted, fault
  end

  -- For each request, charges the first counter without asking, unless the second one, its block, has begun. If the
  -- limit is exceeded then, the block begins: all units move there, and the counter is forgotten.
  local function block(said, requests, key, asked)
    local unit, limit, _, windows, expiry, length = unpack(asked[1], 1, 6)
    local _, _, _, blocks, _, lasts = unpack(asked[2], 1, 6)
    for key = key + 1, key + 2 * requests, 2 do
      local counter, blocker = KEYS[key], KEYS[key + 1]
      local count, ends, due, held = read(counter, windows, expiry, length)
      local blocked, block_ends, block_due, block_held = read(blocker, blocks, nil, lasts)
      local fault = not (count and blocked) and NO_COUNT
      if fault then
        count, blocked = fault, fault
      else
        local after = charged(count, unit, 1, 0, 0)
        if blocked > 0 or unit == 0 or after <= limit then
          if blocked > 0 then
            after = count
            -- It ends no later than its length from now. A charge of nothing only says so.
            block_due = math.min(block_due, now + lasts + GRACE)
          end
          write(counter, count, after, ends, due, held, windows, length)
          if unit > 0 or block_ends == NO_EXPIRY then
            write(blocker, blocked, blocked, block_ends, block_due, block_held, blocks, lasts)
          end
        else
          due, block_due = expiry or now + length + GRACE, now + lasts + GRACE
          call('DEL', counter)
          call('SET', blocker, string.format('%.0f', after), 'PXAT', block_due)
        end
      end
      said = say(said, count, windows, expiry, due)
      said = say(said, blocked, blocks, nil, block_due)
    end
    return said
  end

  return {
    read = read,
    say = say,
    charge_single = charge_single,
    change_singles = change_singles,
    take_several = take_several,
    block = block,
  }
end
