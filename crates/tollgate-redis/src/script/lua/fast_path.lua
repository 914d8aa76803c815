-- The usual call, above all on a Cluster: one charge of one counter of the open window. The counter's remaining life
-- and its expiry tell the time and the window. If the caller expects a window to be open, the life and the window's
-- number prove that it is, and the expiry need not be asked for. The loops below would give the same answer, but their
-- many steps cost as much as a command. A new counter, a denial, an error and an expiry that is off go on there.
local first_ends, left, undone
if #KEYS == 1 then
  local op, times, _, _, spelt, limit, counted, windows, a, b = from_packed('<sdddsddsdd', ARGV[1])
  -- Of these kinds, TIME alone tells the time: it costs less than two calls.
  local is_other = windows == 'burst' or windows == 'sliding' or windows == 'log' or windows == 'sorted'
  if is_other then first_ends = -2 end
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

