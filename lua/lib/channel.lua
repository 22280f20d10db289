-- The channel of a client's subscription. The caller also defines lock_key, and shard: at a node of a Cluster the channels of the lock's slot at this
-- node, as "{TAG}:%s:NODE" with %s for the client; otherwise nil, or empty.
if shard == '' then
  shard = nil
end
local publish = shard and 'SPUBLISH' or 'PUBLISH'
local function channel_of(id)
  return string.match(lock_key, '^[^{]*') .. string.format(shard or '%s', string.match(id, '^[^.]*'))
end
