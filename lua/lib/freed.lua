-- Notifies clients that wait for a free lock (lua/watch.lua), on top of lib/line.lua. The caller also defines lock_key, watchers_key, alert_key.
--
--   :w  zset    the ids of the waiting clients, by the time at which they asked
--   :a  string  there are some: the script that frees the lock deletes this key with it, and needs no extra command to find out
--
-- A release makes these two keys, and is not given them with the others: it would carry them for the few locks that have them. On a server that
-- demands each key that a script touches (Dragonfly, ElastiCache Serverless) the lock is still given back, and no watcher is told; there they ask
-- more often (lua/watch.lua). So the script that frees it deletes both keys, and if that is refused, the lock alone.
-- @include lib/channel.lua

-- A push "=ID KEY" for each, up to the limit of one script. If there are more, the last one gets "+ID KEY": its client continues (lua/watch.lua).
-- The lock has been given back by now, and nothing here may turn that into an error: a client that is not told asks by itself.
local function tell_freed()
  local told = redis.pcall('ZPOPMIN', watchers_key, most_steps)
  local left = redis.pcall('PTTL', watchers_key)
  left = tonumber(left) or 0
  if left > 0 then
    redis.pcall('SET', alert_key, '', 'PX', left)
  end
  for i = 1, #told, 2 do
    local mark = left > 0 and i == #told - 1 and '+' or '='
    redis.pcall(publish, channel_of(told[i]), mark .. told[i] .. ' ' .. lock_key)
  end
end
