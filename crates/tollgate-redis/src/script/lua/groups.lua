local others, charge_kinds, make_kinds, kinds
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
    local is_other = windows == 'burst' or windows == 'sliding' or windows == 'log' or windows == 'sorted'
    local kind, highest, kept = is_other and windows, nil, nil
    if windows == 'burst' then highest, kept, at = from_packed('<dd', ARGV[group], at) end
    local is_open = windows == 'open'
    if windows == 'grid' or is_open then
      windows, start = 'grid', now - (now - a) % b
      expiry, length = start + b + GRACE, b
      local nth = start / b
      number = b >= SHORTEST and ((nth - nth % 1) % NUMBERS + 1) * SPAN or 0
      suffices = is_open and number > 0
    elseif windows == 'first_hit' then
      start, expiry, length = nil, nil, b
    elseif kind then
      if not charge_kinds then
        charge_kinds, make_kinds = other_kinds(now, call, try, GRACE, fit, charged)
      end
    else
      start, expiry, length = a, b + GRACE, b - a
      -- After a step back, a refund may name a window that has not begun.
      stale = stale or now < a - (op == 'refund' and GRACE or 0) or now >= b
    end
    if counters > 1 or op == 'record' or op == 'deny' or kind then
      asked = asked or {}
      asked[i] = { unit, one, other, windows, expiry, length }
      if kind then
        asked[i].kind, asked[i].a, asked[i].b, asked[i].highest, asked[i].kept = kind, a, b, highest, kept
        asked[i].unit, asked[i].one, asked[i].other = unit, one, other
      end
    end
  end
  -- Compared with the time that the answer gives, before anything is written.
  if op == 'before' then op = now < from_packed('<d', ARGV[group], at) and 'charge' or nil end
  if not op then
    local TOO_LATE = -10
    for i = said + 1, said + requests do reply[i] = TOO_LATE end
    said = said + requests
  elseif not stale and not asked and (op == 'charge' or op == 'renew' or op == 'look') then
    local limit, counted = one, other
    local all = unit * times
    if times > 1 then spelt = string.format('%.0f', all) end
    local is_usual = op == 'charge' and not undone and expiry and all > 0 and all <= limit
    local counts = times == 1
    -- All keys differ. One command for all is a third of the work. For types other than strings it answers nil, as if
    -- the key did not exist.
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
        others = others
          or unusual(now, reply, call, try, GRACE, MOST, SPAN, NUMBERS, SHORTEST, STALE, CLOSED, fit, charged)
        said = others.charge_single(said, name, value, times, unit, limit, counted, windows, expiry, length)
      end
    end
  elseif not stale and counters == 1 and asked and asked[1].kind then
    if (windows == 'burst' or windows == 'sliding') and (op == 'charge' or op == 'renew' or op == 'look') then
      said = charge_kinds(reply, said, times, requests, key, asked[1])
    else
      kinds = kinds or make_kinds()
      said = kinds.singles(reply, said, op, times, requests, key, asked[1])
    end
  else
    others = others or unusual(now, reply, call, try, GRACE, MOST, SPAN, NUMBERS, SHORTEST, STALE, CLOSED, fit, charged)
    if stale then
      -- If the key names the window, a refund cannot concern another one.
      local fault = op == 'refund' and windows == 'named' and CLOSED or STALE
      for _ = 1, requests do
        for i = 1, counters do
          if asked then windows = asked[i][4] end
          said = others.say(said, fault, windows)
        end
      end
    elseif op == 'block' then
      said = others.block(said, requests, key, asked)
    elseif asked then
      kinds = kinds or make_kinds and make_kinds()
      said = others.take_several(said, op, times, requests, key, counters, asked, kinds)
    else
      said = others.change_singles(said, op, requests, key, unit, one, windows, start, expiry, length)
    end
  end
  key = key + requests * counters
end
return cmsgpack.pack(reply)
