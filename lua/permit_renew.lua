-- Extends the leases of many parts of locks, never shortens one. A bad key fails alone.
-- KEYS lock...   ARGV id lease, for each; of holds that have lasted long KEYS lock... fence...   ARGV id lease, for each, then retention
-- Answers {now, result...}: 1 extended, 0 not mine (also where the key holds something else), -1 could not be read or written · or READONLY, at what is a replica now
-- @include lib/time.lua
-- @include lib/keep.lua
-- @include lib/part.lua
local count = math.floor(#ARGV / 2)
local retention = #ARGV > 2 * count and tonumber(ARGV[#ARGV])
local answer, readonly = {now}, nil
for i = 1, count do
  local key = KEYS[i]
  local id, lease = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  local value = redis.pcall('HGET', key, id)
  local part = type(value) ~= 'table' and parse_part(value)
  if type(value) == 'table' then
    answer[i + 1] = string.find(value.err, 'WRONGTYPE', 1, true) and 0 or -1
  elseif not part or part.ends <= now then
    answer[i + 1] = 0
  else
    part.state, part.ends = 'h', math.max(part.ends, now + lease * 1000)
    local done = redis.pcall('HSET', key, id, part_text(part))
    if type(done) ~= 'table' and redis.call('PTTL', key) < lease then
      redis.call('PEXPIRE', key, lease)
    end
    readonly = readonly or (type(done) == 'table' and string.find(done.err, 'READONLY', 1, true))
    answer[i + 1] = type(done) == 'table' and -1 or 1
    if retention then
      keep_fence(KEYS[count + i], part.fence, retention)
    end
  end
end
return readonly and redis.error_reply('READONLY the server is a replica now') or answer
