-- Takes one step on shared records: a map of a few names to short texts, under one version.
--
-- KEYS, all in one slot:
--   head     a string, `EPOCH NUMBER MARK COUNT`: the version, a mark of the last change, and how many records there are
--   records  a hash: under each name `NUMBER END TEXT`, with the number of the change that wrote it, and its end in Unix
--            milliseconds or `-`
--   ends     a sorted set: the names of records that end, by their end
--   log      a sorted set: the last changes by their numbers, each `NUMBER MARK PREVIOUS END LENGTH NAME TEXT`, with the
--            mark of the change before, the length of the name in bytes, and `x` for the end of a deleted record. There
--            is no space between name and text.
--
-- ARGV: the operation, then
--   read     the epoch and the number that are known, and the most changes to return
--   set      the tail of all changes (see below), the name, the text, and the end: `never`, `at` or `after` and
--            milliseconds
--   delete   the tail of all changes, the name
--   sweep    the tail of all changes, how many milliseconds ago a record must have ended, and the most to delete
--   The tail is: the mark of this change, an epoch if there is none yet, the length of the log, the most records, and
--   what the record must be: `any`, `absent`, or `version`, with the epoch and the number or two dashes.
--
-- The reply begins with what came of it and the time. Errors of commands end the step before anything is written:
-- whatever a change needs is tried first, without effect. A missing right is no error reply, because then the caller
-- would take the connection for useless.

local EMPTY, EXACT = '0000000000000000', 15
local HEAD, RECORDS, ENDS, LOG = 1, 2, 3, 4
local op = ARGV[1]

local refused

local function try(key, ...)
  local answer = redis.pcall(...)
  if type(answer) ~= 'table' or not answer.err then return answer end
  local text = answer.err
  local is_right = string.find(text, 'NOPERM', 1, true) or string.find(text, 'ACL failure in script', 1, true)
    or string.find(text, 'The user executing the script', 1, true)
  if string.find(text, 'WRONGTYPE', 1, true) then
    answer = { 'damaged', key }
  elseif is_right then
    answer = { 'no right' }
  end
  refused = refused or answer
  return nil
end

local function digits(number)
  return string.format('%.0f', number)
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local epoch, number, mark, count = EMPTY, 0, EMPTY, 0
local head = try(HEAD, 'GET', KEYS[HEAD])
local held = try(RECORDS, 'HLEN', KEYS[RECORDS])
if refused then return refused end
if head then
  epoch, number, mark, count = string.match(head, '^(%x+) (%d+) (%x+) (%d+)$')
  if not epoch or #epoch ~= #EMPTY or #mark ~= #EMPTY or #number > EXACT or #count > EXACT then
    return { 'damaged', HEAD }
  end
  number, count = tonumber(number), tonumber(count)
  if held ~= count then return { 'damaged', RECORDS } end
elseif held > 0 then
  return { 'damaged', HEAD }
end

if op == 'read' then
  local known, changes = tonumber(ARGV[3]), {}
  if number > known and (known == 0 or ARGV[2] == epoch) then
    changes = try(LOG, 'ZRANGE', KEYS[LOG], '(' .. ARGV[3], '+inf', 'BYSCORE', 'LIMIT', '0', ARGV[4])
    if refused then return refused end
  end
  return { 'read', now, epoch, number, mark, count, changes }
end

local own_mark, most_logged = ARGV[2], tonumber(ARGV[4])

local logged

local function prepare()
  -- First a command that a server without memory refuses, but not before a deletion, which makes room.
  if op == 'set' then try(LOG, 'ZADD', KEYS[LOG], 'XX', '0', '') end
  try(ENDS, 'ZREM', KEYS[ENDS], '')
  try(LOG, 'ZPOPMIN', KEYS[LOG], '0')
  try(LOG, 'ZADD', KEYS[LOG], 'XX', '0', '')
  logged = try(LOG, 'ZCARD', KEYS[LOG])
  return refused == nil
end

local function write(name, text, ends)
  if head == false then epoch = ARGV[3] end
  local is_new
  if text then
    is_new = try(RECORDS, 'HSET', KEYS[RECORDS], name, digits(number + 1) .. ' ' .. ends .. ' ' .. text)
  else
    is_new = try(RECORDS, 'HDEL', KEYS[RECORDS], name)
  end
  if refused then return end
  number, head = number + 1, true
  if not text then
    count = count - is_new
  else
    count = count + is_new
  end
  if text and ends ~= '-' then
    redis.call('ZADD', KEYS[ENDS], ends, name)
  else
    redis.call('ZREM', KEYS[ENDS], name)
  end
  local change = table.concat({ digits(number), own_mark, mark, text and ends or 'x', #name, name }, ' ')
  redis.call('ZADD', KEYS[LOG], digits(number), change .. (text or ''))
  mark = own_mark
  logged = logged + 1
  if logged > most_logged then
    redis.call('ZPOPMIN', KEYS[LOG], digits(logged - most_logged))
    logged = most_logged
  end
end

local function write_head()
  redis.call('SET', KEYS[HEAD], table.concat({ epoch, digits(number), mark, digits(count) }, ' '))
end

if op == 'sweep' then
  local last, swept = now - tonumber(ARGV[9]), 0
  local names = try(ENDS, 'ZRANGE', KEYS[ENDS], '-inf', digits(last), 'BYSCORE', 'LIMIT', '0', ARGV[10])
  if refused or #names > 0 and not prepare() then return refused end
  for _, name in ipairs(names) do
    local value = try(RECORDS, 'HGET', KEYS[RECORDS], name)
    if refused then return refused end
    local ends = tonumber(string.match(value or '', '^%d+ (%d+) '))
    if ends and ends <= last then
      write(name)
      if refused then return refused end
      swept = swept + 1
    elseif ends then
      redis.call('ZADD', KEYS[ENDS], digits(ends), name)
    else
      redis.call('ZREM', KEYS[ENDS], name)
    end
  end
  if swept > 0 then write_head() end
  return { 'swept', now, epoch, number, swept, #names }
end

if op ~= 'set' and op ~= 'delete' then return redis.error_reply('ERR unknown operation on records') end

local name = ARGV[9]
local current = try(RECORDS, 'HGET', KEYS[RECORDS], name)
if refused then return refused end
local is_match = ARGV[6] == 'any' and (op == 'set' or current)
  or ARGV[6] == 'absent' and op == 'set' and not current
  or ARGV[6] == 'version' and current and ARGV[7] == epoch and ARGV[8] == string.match(current, '^(%d+) ')
if not is_match then return { 'mismatch', now, epoch, number, current } end

if op == 'delete' then
  if not prepare() then return refused end
  write(name)
  if refused then return refused end
  write_head()
  return { 'made', now, epoch, number, '-', 1 }
end

if not current and count >= tonumber(ARGV[5]) then return { 'too many', now } end
local ends = '-'
if ARGV[11] == 'at' then
  ends = ARGV[12]
elseif ARGV[11] == 'after' then
  ends = digits(now + tonumber(ARGV[12]))
end
if ends ~= '-' and tonumber(ends) <= now then return { 'end passed', now } end
if not prepare() then return refused end
write(name, ARGV[10], ends)
if refused then return refused end
write_head()
return { 'made', now, epoch, number, ends, current and 1 or 0 }
