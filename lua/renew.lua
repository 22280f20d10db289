-- Extends the leases of many locks, never shortens one. A bad key fails alone.
-- KEYS lock...   ARGV "id" or "id fence", lease, for each; of holds that have lasted long, and of pushed grants KEYS lock...
-- fence... queue...   ARGV id lease, for each, then retention, and at a node of a Cluster: shard (lib/channel.lua; all are of one slot)
-- Answers {now, result...}: 1 extended, 0 not mine (also where the key holds something else), -1 could not be read or written · or READONLY, at what is a replica now
-- @include lib/time.lua
-- @include lib/keep.lua
local keeps = #ARGV ~= 2 * #KEYS
local count = keeps and #KEYS / 3 or #KEYS
local retention = keeps and tonumber(ARGV[2 * count + 1])
local pcall, find, byte = redis.pcall, string.find, string.byte
local readonly

local was_claim
local function extend(key, id, lease)
  local value = pcall('GET', key)
  if type(value) == 'table' then return find(value.err, 'WRONGTYPE', 1, true) and 0 or -1 end
  if not value or string.sub(value, 1, #id + 1) ~= id .. ' ' then return 0 end
  local left = redis.call('PTTL', key)
  local done = 1
  if string.sub(value, -1) == 'c' then
    was_claim = true
    pcall('PEXPIRE', key, math.max(left, lease)) -- at full memory the server lets a script write a text only after a write that needs no memory
    done = pcall('SET', key, string.sub(value, 1, -2) .. 'h', 'PX', math.max(left, lease))
  elseif left < lease then
    done = pcall('PEXPIRE', key, lease)
  end
  if type(done) ~= 'table' or not done.err then return 1 end
  readonly = readonly or find(done.err, 'READONLY', 1, true)
  return -1
end

-- The usual case, a hold of mine whose lease becomes longer, takes one call each. Servers before 7.0 have no GT, nor this number.
local values = redis.REDIS_VERSION_NUM and pcall('MGET', unpack(KEYS, 1, count)) or {}
local answer = {now}
for i = 1, count do
  local key = KEYS[i]
  local id, lease, value = ARGV[2 * i - 1], ARGV[2 * i], values[i]
  local usual = value and find(value, id, 1, true) == 1 and byte(value, #id + 1) == 32 and byte(value, -1) == 104
  answer[i + 1] = usual and pcall('PEXPIRE', key, lease, 'GT') == 1 and 1 or extend(key, id, tonumber(lease))
  if retention and answer[i + 1] == 1 then
    keep_fence(KEYS[count + i], tonumber(string.match(value or redis.call('GET', key), ' (%d+) [hc]$')), retention)
    if was_claim then
      -- A push made it an owner. Those behind it in the queue, and the watchers, know the lease of the previous one.
      local lock_key, shard = key, ARGV[2 * count + 2]
      -- @include lib/channel.lua
      -- @include lib/told.lua
      tell_end(KEYS[2 * count + i], lease, 3)
      tell_end(key .. ':w', lease, 3)
    end
  end
  was_claim = nil
end
return readonly and redis.error_reply('READONLY the server is a replica now') or answer
