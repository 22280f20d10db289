-- The tables, and the functions that the other files share.
--
-- If you change anything here, raise conch.version() and schema_version (src/servers/postgresql/schema.hpp). Add a column below its table with
-- `alter table ... add column if not exists ... default ...`. Older clients call the functions of a newer schema, even of one that was created from
-- scratch: give a function with other parameters a new name, or overload it, and keep the old one.

-- Unlogged: a grant does not wait for the disk. After a crash of the server, and on a standby that takes over, these tables are empty.
-- Then the row in conch.alive is missing, and conch.quiet grants nothing until the longest lease of all has passed.
-- All times are the server's. *_until is in ms: -1 means none, and the value expires after that millisecond. Others are in microseconds.
create unlogged table if not exists conch.lock (
  key bytea primary key,                          -- PREFIX{NAME}
  owner text collate "C",                         -- of a mutex: CLIENT.N; valid until owner_until
  owner_fence bigint not null default 0,
  claimed boolean not null default false,
  owner_until bigint not null default -1,
  kind integer not null default 0,                -- of a lock with several owners: its letter; valid until hash_until
  lim bigint not null default 0,
  used bigint not null default 0,
  first_end bigint not null default 0,            -- no share expires earlier
  map text collate "C" not null default '',       -- of a striped_mutex: a digit per segment, 1 if taken; of a reentrant lock: the owner
  limit_set boolean not null default false,
  hash_until bigint not null default -1,
  waiting boolean not null default false,         -- the lock has waiters; valid until line_until
  line_until bigint not null default -1,
  fence bigint not null default 0,                -- the latest; remembered until fence_until
  fence_until bigint not null default -1,
  requests_until bigint not null default -1,
  watchers_until bigint not null default -1,
  alert_until bigint not null default -1          -- until then, a release notifies the watchers
) with (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);

create unlogged table if not exists conch.part (  -- the owners of a lock with several owners
  key bytea, id text collate "C", weight bigint not null, fence bigint not null, claimed boolean not null, ends bigint not null,
  segment bigint not null, primary key (key, id)
) with (fillfactor = 70, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);

create unlogged table if not exists conch.line (
  key bytea not null, ticket bigint not null, id text collate "C" not null,
  rest text collate "C" not null                  -- of a permit: ' WEIGHT VISITED'; may be long
) with (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
create index if not exists line_order on conch.line (key, ticket, id);
create index if not exists line_ids on conch.line (key, id);

create unlogged table if not exists conch.request (  -- a client asks an owner, named by its fence, to release
  key bytea, owner_fence bigint, asker text not null, at bigint not null, primary key (key, owner_fence));
create unlogged table if not exists conch.watcher (  -- a client waits until the lock is free
  key bytea, at bigint, id text collate "C", primary key (key, at, id));

-- Clients that listen under another key because their own was taken (conch.hear).
create unlogged table if not exists conch.hearer (client text collate "C" primary key, key bigint not null);

-- What a client tells others about itself; valid until then.
create unlogged table if not exists conch.introduction (client text collate "C" primary key, words text not null, until bigint not null);

create unlogged table if not exists conch.alive (
  one boolean primary key check (one), since bigint not null, quiet_until bigint not null, longest bigint not null);
create unlogged table if not exists conch.swept (one boolean primary key check (one), key bytea not null);  -- where conch.sweep continues
insert into conch.settings values (true, 0) on conflict do nothing;

create or replace function conch.version() returns integer language sql immutable as $$ select 6 $$;

-- Call this once per command, after locking the row. now() would be the start of the transaction, before the wait for the row.
create or replace function conch.now_us() returns bigint language sql volatile as
$$ select (extract(epoch from clock_timestamp()) * 1000000)::bigint $$;

create or replace function conch.client(id text) returns text language sql immutable as $$ select split_part(id, '.', 1) $$;
create or replace function conch.channel(client text) returns text language sql immutable as $$ select 'conch_' || client $$;
create or replace function conch.key_of(client text) returns bigint language sql immutable as $$ select hashtextextended(client, 20200101) $$;

create or replace function conch.left_of(until_ms bigint, ms bigint) returns bigint language sql immutable as
$$ select case when until_ms < 0 then -1 else greatest(until_ms - ms, 0) end $$;

create or replace function conch.wrong_kind() returns void language plpgsql as
$$ begin raise exception using errcode = 'CN001', message = 'the name is that of another kind of lock'; end $$;

-- For how many more ms nothing may be granted. If the tables are lost, so are the holds, but their holders do not know it. So conch.settings keeps
-- the longest lease that any client has asked for, and the server waits for it to pass. It is on disk before a lock is granted for that long.
-- The wait is never longer than that: the clock may have gone back since, or it was ahead when the tables were lost.
-- The row in conch.settings is missing only if somebody left it out of a copy or deleted it. Then nothing is known about earlier holds.
create or replace function conch.quiet(lease bigint, t bigint) returns bigint language plpgsql as $$
declare a conch.alive;
begin
  select * into a from conch.alive;
  if not found then
    insert into conch.settings values (true, 0) on conflict do nothing;
    insert into conch.alive select true, t, t + s.longest_lease * 1000, s.longest_lease from conch.settings s on conflict do nothing;
    select * into strict a from conch.alive;
  end if;
  if lease > a.longest then
    perform set_config('synchronous_commit', 'on', true);
    insert into conch.settings as s values (true, lease)
      on conflict (one) do update set longest_lease = excluded.longest_lease where s.longest_lease < excluded.longest_lease;
    update conch.alive set longest = lease where longest < lease;
  end if;
  if a.quiet_until > t + a.longest * 1000 then
    update conch.alive x set quiet_until = least(x.quiet_until, t + x.longest * 1000) returning x.quiet_until into a.quiet_until;
  end if;
  return greatest((a.quiet_until - t + 999) / 1000, 0);
end $$;

-- A client that listens holds an advisory lock for as long as its connection lives. Anybody can see and take such a key: a client whose key is taken
-- listens under another one (conch.hear), and a dead client whose key is taken looks alive for one claim.
-- The check unlocks the key at once, not at the end of the transaction: a long line would need too many advisory locks.
create or replace function conch.hears_elsewhere(c text) returns boolean language plpgsql as $$
declare k bigint;
begin
  select h.key into k from conch.hearer h where h.client = c;
  if not found then return false; end if;
  if pg_try_advisory_lock_shared(k) then return not pg_advisory_unlock_shared(k); end if;
  return true;
end $$;

create or replace function conch.hears(id text) returns boolean language sql volatile as
$$ select case when conch.client(id) = current_setting('conch.client', true) then true
               when pg_try_advisory_lock_shared(conch.key_of(conch.client(id)))
                 then case when pg_advisory_unlock_shared(conch.key_of(conch.client(id))) then conch.hears_elsewhere(conch.client(id)) else true end
               else true end $$;

create or replace function conch.put(l conch.lock) returns void language plpgsql as $$
begin
  update conch.lock k set owner = l.owner, owner_fence = l.owner_fence, claimed = l.claimed, owner_until = l.owner_until, kind = l.kind, lim = l.lim,
    used = l.used, first_end = l.first_end, map = l.map, limit_set = l.limit_set, hash_until = l.hash_until, waiting = l.waiting,
    line_until = l.line_until, fence = l.fence, fence_until = l.fence_until, requests_until = l.requests_until, watchers_until = l.watchers_until,
    alert_until = l.alert_until
  where k.key = l.key;
end $$;

-- Removes what has expired. If that deletes rows of other tables, it writes the lock's own row at once, so that it does not claim they still exist.
create or replace function conch.without_expired(l conch.lock, ms bigint) returns conch.lock language plpgsql as $$
declare gone boolean := false;
begin
  if l.owner_until < ms then l.owner_until := -1; end if;
  if l.line_until < ms then
    if l.waiting then
      delete from conch.line q where q.key = l.key;
      gone := true;
    end if;
    l.waiting := false;
    l.line_until := -1;
  end if;
  if l.fence_until < ms then l.fence_until := -1; end if;
  if l.hash_until <> -1 and l.hash_until < ms then
    delete from conch.part p where p.key = l.key;
    l.hash_until := -1;
    l.used := 0;
    gone := true;
  end if;
  if l.requests_until <> -1 and l.requests_until < ms then
    delete from conch.request r where r.key = l.key;
    l.requests_until := -1;
    gone := true;
  end if;
  if l.watchers_until <> -1 and l.watchers_until < ms then
    delete from conch.watcher w where w.key = l.key;
    l.watchers_until := -1;
    gone := true;
  end if;
  if l.alert_until < ms then l.alert_until := -1; end if;
  if gone then perform conch.put(l); end if;
  return l;
end $$;

-- Checks the next `most` locks and deletes those that are empty; not `mine`, which the caller has just inserted.
create or replace function conch.sweep(mine bytea, most integer, ms bigint) returns void language plpgsql as $$
declare l conch.lock; last bytea; seen integer := 0;
begin
  select key into last from conch.swept for update skip locked;
  if not found then
    insert into conch.swept values (true, '') on conflict do nothing;
    return;
  end if;
  for l in select * from conch.lock k where k.key > last and k.key <> mine order by k.key limit most for update skip locked loop
    seen := seen + 1;
    last := l.key;
    if greatest(l.owner_until, l.hash_until, l.line_until, l.fence_until, l.requests_until, l.watchers_until, l.alert_until) < ms then
      l := conch.without_expired(l, ms);
      delete from conch.lock k where k.key = l.key;
    end if;
  end loop;
  update conch.swept set key = case when seen < most then '' else last end;
end $$;

-- Locks the row for this transaction, and inserts it if it is missing. Each new name pays for the sweep of two others.
create or replace function conch.load(k bytea) returns conch.lock language plpgsql as $$
declare l conch.lock;
begin
  loop
    select * into l from conch.lock x where x.key = k for update;
    exit when found;
    insert into conch.lock (key) values (k) on conflict do nothing;
    if found then perform conch.sweep(k, 2, conch.now_us() / 1000); end if;
  end loop;
  return l;
end $$;

create or replace function conch.next_fence(l conch.lock, floor bigint, retention bigint, t bigint) returns conch.lock language plpgsql as $$
declare clock bigint := t - FENCE_EPOCH_US; f bigint := greatest(clock, floor + 1);
begin
  if l.fence_until <> -1 and l.fence >= f then f := l.fence + 1; end if;
  l.fence := f;
  l.fence_until := t / 1000 + retention + (f - clock + 999) / 1000;
  return l;
end $$;

create or replace function conch.keep_fence(l conch.lock, f bigint, retention bigint, t bigint) returns conch.lock language plpgsql as $$
declare clock bigint := t - FENCE_EPOCH_US; kept bigint; lives bigint;
begin
  kept := case when l.fence_until <> -1 then greatest(f, l.fence) else f end;
  lives := retention + greatest(0, (kept - clock + 999) / 1000);
  if l.fence_until <> -1 and l.fence >= f and conch.left_of(l.fence_until, t / 1000) >= lives then return l; end if;
  l.fence := kept;
  l.fence_until := t / 1000 + lives;
  return l;
end $$;

-- Returns the ticket. Call conch.keep_line afterwards.
create or replace function conch.enqueue(k bytea, id_ text, rest_ text, shown bigint, t bigint) returns bigint language plpgsql as $$
declare tk bigint := shown; known bigint;
begin
  select q.ticket into known from conch.line q where q.key = k and q.id = id_ and q.rest = rest_;
  if tk = 0 then
    if known is not null then return known; end if;  -- a new ticket would be last in line
    select greatest(t, max(q.ticket) + 1) into tk from conch.line q where q.key = k;
  end if;
  if known is null then
    insert into conch.line values (k, tk, id_, rest_);
    return tk;
  end if;
  if known <= tk then return known; end if;
  update conch.line q set ticket = tk where q.key = k and q.id = id_ and q.rest = rest_;
  return tk;
end $$;

create or replace function conch.keep_line(l conch.lock, lives bigint, ms bigint) returns conch.lock language plpgsql as $$
begin
  l.waiting := true;
  if conch.left_of(l.line_until, ms) < lives then l.line_until := ms + lives; end if;
  return l;
end $$;

create or replace function conch.shorter_line(l conch.lock) returns conch.lock language plpgsql as $$
begin
  l.waiting := exists (select from conch.line q where q.key = l.key);
  if not l.waiting then l.line_until := -1; end if;
  return l;
end $$;

create or replace function conch.leave_line(l conch.lock, id_ text, rest_ text) returns conch.lock language plpgsql as $$
begin
  if not l.waiting then return l; end if;
  delete from conch.line q where q.key = l.key and q.id = id_ and q.rest = rest_;
  if not found then return l; end if;
  return conch.shorter_line(l);
end $$;

-- `!`: the lock was taken away; `*`: please release it; `=`: it is free
create or replace function conch.tell(id text, what text, k bytea) returns void language sql as
$$ select pg_notify(conch.channel(conch.client(id)), what || ' ' || id || ' ' || encode(k, 'hex')) $$;

create or replace function conch.grant(id text, f bigint, t bigint, claim bigint, kind integer, segment bigint, k bytea) returns void language sql as
$$ select pg_notify(conch.channel(conch.client(id)),
     '+ ' || id || ' ' || f || ' ' || t || ' ' || claim || ' ' || kind || ' ' || segment || ' ' || encode(k, 'hex')) $$;

-- The first waiters and the watchers know only an earlier owner's lease. These tell them when the current owner's lease ends (lua/lib/told.lua).
create or replace function conch.tell_end(k bytea, remains bigint, most integer) returns void language sql as $$
  select pg_notify(conch.channel(conch.client(x.id)), '~ ' || x.id || ' ' || remains || ' ' || encode(k, 'hex'))
  from (select q.id from conch.line q where q.key = k order by q.ticket, q.id, q.rest limit most) x
$$;

create or replace function conch.tell_watchers_end(k bytea, remains bigint) returns void language sql as $$
  select pg_notify(conch.channel(conch.client(x.id)), '~ ' || x.id || ' ' || remains || ' ' || encode(k, 'hex'))
  from (select w.id from conch.watcher w where w.key = k order by w.at, w.id limit 3) x
$$;

create or replace function conch.is_first(k bytea, id_ text, rest_ text) returns boolean language sql as
$$ select coalesce((select x.id = id_ and x.rest = rest_
                    from (select q.id, q.rest from conch.line q where q.key = k order by q.ticket, q.id, q.rest limit 1) x), false) $$;

create or replace function conch.tell_freed(l conch.lock) returns conch.lock language plpgsql as $$
declare w text;
begin
  if l.alert_until = -1 then return l; end if;
  l.alert_until := -1;
  for w in delete from conch.watcher x where x.key = l.key returning x.id loop
    perform conch.tell(w, '=', l.key);
  end loop;
  l.watchers_until := -1;
  return l;
end $$;
