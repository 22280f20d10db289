-- Extends the leases of many parts of locks, never shortens one. A bad key fails alone.
-- KEYS lock...   ARGV "id" or "id fence", lease, for each; of holds that have lasted long, and of pushed grants
-- KEYS lock... fence... ends... queue...   ARGV id lease, for each, then retention, and at a node of a Cluster: shard (lib/channel.lua; all are of one slot)
-- Answers {now, result...}: 1 extended, 0 not mine (also where the key holds something else), -1 could not be read or written · or READONLY, at what is a replica now
-- @include lib/time.lua
-- @include lib/keep.lua
local keeps = #ARGV ~= 2 * #KEYS
local count = keeps and #KEYS / 4 or #KEYS
local retention = keeps and tonumber(ARGV[2 * count + 1])
local answer, readonly = {now}, nil
local pcall, match, max = redis.pcall, string.match, math.max

-- Servers before 7.0 have no GT, nor this number.
local has_gt = redis.REDIS_VERSION_NUM
local function live(key, lease)
  if has_gt then
    pcall('PEXPIRE', key, lease, 'GT')
  else
    pcall('PEXPIRE', key, max(pcall('PTTL', key), lease))
  end
end

for i = 1, count do
  local key = KEYS[i]
  local id, fence = match(ARGV[2 * i - 1], '^(%S+) ?(%d*)$')
  local lease = tonumber(ARGV[2 * i])
  local value = pcall('HGET', key, id)
  if type(value) == 'table' then
    answer[i + 1] = string.find(value.err, 'WRONGTYPE', 1, true) and 0 or -1
    value = nil
  end
  local before, state, ends, segment = match(value or '', '^(%d+ %d+ )([hc]) (%d+)( %d+)$') -- as in lib/part.lua
  ends = tonumber(ends or 0)
  if ends <= now or (fence ~= '' and match(before, ' (%d+) ') ~= fence) then
    answer[i + 1] = answer[i + 1] or 0
  else
    -- First that the hash lives: it needs no memory, and at full memory the server lets a script write more only after such a write.
    live(key, lease)
    local done = pcall('HSET', key, id, before .. 'h ' .. text(max(ends, now + lease * 1000)) .. segment)
    readonly = readonly or (type(done) == 'table' and string.find(done.err, 'READONLY', 1, true))
    answer[i + 1] = type(done) == 'table' and -1 or 1
    if retention then
      keep_fence(KEYS[count + i], tonumber(match(before, ' (%d+)')), retention)
      redis.call('PEXPIRE', KEYS[2 * count + i], lease + retention)
      if state == 'c' then
        -- A push made it an owner. Those behind it in the queue, and the watchers, know the leases of earlier owners.
        local lock_key, shard = key, ARGV[2 * count + 2]
        -- @include lib/channel.lua
        -- @include lib/told.lua
        tell_end(KEYS[3 * count + i], lease, 3)
        tell_end(key .. ':w', lease, 3)
      end
    end
  end
end
return readonly and redis.error_reply('READONLY the server is a replica now') or answer
