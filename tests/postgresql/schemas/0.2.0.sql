-- conch's locks in PostgreSQL. Run as a role that may create a schema; a client does so itself where it may.
-- Run it again for a newer version: it changes what is there, and takes no lock away.
-- Another role needs: grant usage on schema conch to ROLE; grant select, insert, update, delete on all tables in schema conch to ROLE.
select pg_advisory_xact_lock(7165064744911531112);  -- clients that find no schema at the same time

do $$ begin
  if to_regnamespace('conch') is null then create schema conch; end if;
end $$;

-- Who changes something here: raise conch.version() and schema_version (src/postgresql/schema.hpp). Add a column below its table with `alter table ... add
-- column if not exists ... default ...`. Clients of before use the functions of now: one that is to take something else gets another name.

-- Unlogged: a grant does not wait for the disk. After a crash of the server, and at a standby that takes over, these tables are empty.
-- Then the row in conch.alive is missing, and nothing is granted before the longest lease of all has passed (conch.quiet).
-- All times are of the server's clock: *_until in ms, -1: none, gone after that millisecond; ends, at, since, quiet_until in microseconds.
create unlogged table if not exists conch.lock (
  key bytea primary key,                          -- PREFIX{NAME}
  owner text collate "C",                         -- of a mutex: CLIENT.N, until owner_until
  owner_fence bigint not null default 0,
  claimed boolean not null default false,
  owner_until bigint not null default -1,
  kind integer not null default 0,                -- of a lock with several owners: the letter, until hash_until
  lim bigint not null default 0,
  used bigint not null default 0,
  first_end bigint not null default 0,            -- no lease ends before
  map text collate "C" not null default '',       -- segments, 1 is taken; of a reentrant lock the owner
  limit_set boolean not null default false,
  hash_until bigint not null default -1,
  waiting boolean not null default false,         -- there is a line, until line_until
  line_until bigint not null default -1,
  fence bigint not null default 0,                -- the last one, until fence_until
  fence_until bigint not null default -1,
  requests_until bigint not null default -1,
  watchers_until bigint not null default -1,
  alert_until bigint not null default -1          -- until then whoever frees the lock tells the watchers
) with (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);

create unlogged table if not exists conch.part (  -- the owners of a lock with several
  key bytea, id text collate "C", weight bigint not null, fence bigint not null, claimed boolean not null, ends bigint not null,
  segment bigint not null, primary key (key, id)
) with (fillfactor = 70, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);

create unlogged table if not exists conch.line (
  key bytea not null, ticket bigint not null, id text collate "C" not null,
  rest text collate "C" not null                  -- of a permit: ' WEIGHT VISITED', which may be long
) with (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
create index if not exists line_order on conch.line (key, ticket, id);
create index if not exists line_ids on conch.line (key, id);

create unlogged table if not exists conch.request (  -- to let go, by the fence of the owner that is asked
  key bytea, owner_fence bigint, asker text not null, at bigint not null, primary key (key, owner_fence));
create unlogged table if not exists conch.watcher (  -- waits until the lock is free
  key bytea, at bigint, id text collate "C", primary key (key, at, id));

create unlogged table if not exists conch.alive (
  one boolean primary key check (one), since bigint not null, quiet_until bigint not null, longest bigint not null);
create unlogged table if not exists conch.swept (one boolean primary key check (one), key bytea not null);  -- how far rows were looked through
create table if not exists conch.settings (one boolean primary key check (one), longest_lease bigint not null);  -- in ms, logged
insert into conch.settings values (true, 0) on conflict do nothing;

create or replace function conch.version() returns integer language sql immutable as $$ select 1 $$;

-- Once in a command, and after its row was locked: now() is when the transaction began.
create or replace function conch.now_us() returns bigint language sql volatile as
$$ select (extract(epoch from clock_timestamp()) * 1000000)::bigint $$;

create or replace function conch.client(id text) returns text language sql immutable as $$ select split_part(id, '.', 1) $$;
create or replace function conch.channel(client text) returns text language sql immutable as $$ select 'conch_' || client $$;
create or replace function conch.key_of(client text) returns bigint language sql immutable as $$ select hashtextextended(client, 20200101) $$;

create or replace function conch.left_of(until_ms bigint, ms bigint) returns bigint language sql immutable as
$$ select case when until_ms < 0 then -1 else greatest(until_ms - ms, 0) end $$;

create or replace function conch.wrong_kind() returns void language plpgsql as
$$ begin raise exception using errcode = 'CN001', message = 'the name is that of another kind of lock'; end $$;

-- How many ms longer nothing may be granted. With the tables the holds of before are lost, but their holders do not know. So the longest lease
-- that anybody ever asked for is written, and waited out. It is on the disk before a lock is granted for so long.
create or replace function conch.quiet(lease bigint, t bigint) returns bigint language plpgsql as $$
declare a conch.alive;
begin
  select * into a from conch.alive;
  if not found then
    insert into conch.alive select true, t, t + s.longest_lease * 1000, s.longest_lease from conch.settings s on conflict do nothing;
    select * into strict a from conch.alive;
  end if;
  if lease > a.longest then
    perform set_config('synchronous_commit', 'on', true);
    update conch.settings set longest_lease = lease where longest_lease < lease;
    update conch.alive set longest = lease where longest < lease;
  end if;
  return greatest((a.quiet_until - t + 999) / 1000, 0);
end $$;

-- A client that listens holds an advisory lock as long as its connection lives.
-- The lock is not kept until the end of the transaction: a long line would need too many.
create or replace function conch.hears(id text) returns boolean language sql volatile as
$$ select case when conch.client(id) = current_setting('conch.client', true) then true
               when pg_try_advisory_lock_shared(conch.key_of(conch.client(id)))
                 then not pg_advisory_unlock_shared(conch.key_of(conch.client(id)))
               else true end $$;

create or replace function conch.without_expired(l conch.lock, ms bigint) returns conch.lock language plpgsql as $$
begin
  if l.owner_until < ms then l.owner_until := -1; end if;
  if l.line_until < ms then
    if l.waiting then delete from conch.line q where q.key = l.key; end if;
    l.waiting := false;
    l.line_until := -1;
  end if;
  if l.fence_until < ms then l.fence_until := -1; end if;
  if l.hash_until <> -1 and l.hash_until < ms then
    delete from conch.part p where p.key = l.key;
    l.hash_until := -1;
  end if;
  if l.requests_until <> -1 and l.requests_until < ms then
    delete from conch.request r where r.key = l.key;
    l.requests_until := -1;
  end if;
  if l.watchers_until <> -1 and l.watchers_until < ms then
    delete from conch.watcher w where w.key = l.key;
    l.watchers_until := -1;
  end if;
  if l.alert_until < ms then l.alert_until := -1; end if;
  return l;
end $$;

create or replace function conch.put(l conch.lock) returns void language plpgsql as $$
begin
  update conch.lock k set owner = l.owner, owner_fence = l.owner_fence, claimed = l.claimed, owner_until = l.owner_until, kind = l.kind, lim = l.lim,
    used = l.used, first_end = l.first_end, map = l.map, limit_set = l.limit_set, hash_until = l.hash_until, waiting = l.waiting,
    line_until = l.line_until, fence = l.fence, fence_until = l.fence_until, requests_until = l.requests_until, watchers_until = l.watchers_until,
    alert_until = l.alert_until
  where k.key = l.key;
end $$;

-- Looks at some more locks, and deletes those of which nothing is left; not `mine`, of which nothing is there yet.
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

-- The row of a lock, for this transaction alone. Each new name pays for what is left of two others.
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
declare clock bigint := t - 1577836800000000; f bigint := greatest(clock, floor + 1);
begin
  if l.fence_until <> -1 and l.fence >= f then f := l.fence + 1; end if;
  l.fence := f;
  l.fence_until := t / 1000 + retention + (f - clock + 999) / 1000;
  return l;
end $$;

create or replace function conch.keep_fence(l conch.lock, f bigint, retention bigint, t bigint) returns conch.lock language plpgsql as $$
declare clock bigint := t - 1577836800000000; kept bigint; lives bigint;
begin
  kept := case when l.fence_until <> -1 then greatest(f, l.fence) else f end;
  lives := retention + greatest(0, (kept - clock + 999) / 1000);
  if l.fence_until <> -1 and l.fence >= f and conch.left_of(l.fence_until, t / 1000) >= lives then return l; end if;
  l.fence := kept;
  l.fence_until := t / 1000 + lives;
  return l;
end $$;

-- Answers the ticket. Followed by conch.keep_line.
create or replace function conch.enqueue(k bytea, id_ text, rest_ text, shown bigint, t bigint) returns bigint language plpgsql as $$
declare tk bigint := shown; known bigint;
begin
  select q.ticket into known from conch.line q where q.key = k and q.id = id_ and q.rest = rest_;
  if tk = 0 then
    if known is not null then return known; end if;  -- the new one would be behind all
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

-- `!` taken away, `*` asked to let go, `=` free
create or replace function conch.tell(id text, what text, k bytea) returns void language sql as
$$ select pg_notify(conch.channel(conch.client(id)), what || ' ' || id || ' ' || encode(k, 'hex')) $$;

create or replace function conch.grant(id text, f bigint, t bigint, claim bigint, kind integer, segment bigint, k bytea) returns void language sql as
$$ select pg_notify(conch.channel(conch.client(id)),
     '+ ' || id || ' ' || f || ' ' || t || ' ' || claim || ' ' || kind || ' ' || segment || ' ' || encode(k, 'hex')) $$;

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

-- The functions of a mutex. They answer the numbers that lua/*.lua answer (docs/protocol.md); src/memory has the same rules in C++.

-- The lock has no owner; whoever gets it is in the row then.
create or replace function conch.pass_on(l conch.lock, me text, my_lease bigint, claim bigint, retention bigint, floor bigint, t bigint)
returns conch.lock language plpgsql as $$
declare head conch.line;
begin
  l := conch.next_fence(l, floor, retention, t);
  loop
    delete from conch.line q where q.ctid = (select x.ctid from conch.line x where x.key = l.key order by x.ticket, x.id, x.rest limit 1)
      returning * into head;
    exit when not found;
    continue when head.rest <> '';  -- a waiter for a lock of another kind
    if head.id = me then
      l.owner := me; l.owner_fence := l.fence; l.claimed := false; l.owner_until := t / 1000 + my_lease;
      exit;
    end if;
    if conch.hears(head.id) then
      perform conch.grant(head.id, l.fence, t, claim, 0, 0, l.key);
      l.owner := head.id; l.owner_fence := l.fence; l.claimed := true; l.owner_until := t / 1000 + claim;
      exit;
    end if;
  end loop;
  return conch.shorter_line(l);
end $$;

-- Is the first in line one that has not connected again yet?
create or replace function conch.awaits(k bytea, me text) returns boolean language sql as
$$ select coalesce((select x.id is distinct from me and not conch.hears(x.id)
                    from (select q.id from conch.line q where q.key = k order by q.ticket, q.id, q.rest limit 1) x), false) $$;

create or replace function conch.acquire(k bytea, me text, waits boolean, patient boolean, lease bigint, claim bigint, retention bigint,
  shown bigint, not_after bigint) returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; q bigint; remains bigint; soon constant bigint := 20;
begin
  if not_after = 0 then  -- the usual case: nobody has it, and nobody waits
    update conch.lock x set owner = me, owner_fence = c.t - 1577836800000000, claimed = false, owner_until = c.t / 1000 + lease,
      fence = c.t - 1577836800000000, fence_until = c.t / 1000 + retention
    from (select conch.now_us() as t, a.quiet_until, a.longest from conch.alive a) c
    where x.key = k and x.owner_until < c.t / 1000 and x.hash_until < c.t / 1000 and not x.waiting
      and (x.fence_until < c.t / 1000 or x.fence < c.t - 1577836800000000) and c.quiet_until <= c.t and greatest(lease, claim) <= c.longest
    returning c.t into t;
    if found then return array[1, t - 1577836800000000, t]; end if;
  end if;
  l := conch.load(k);
  t := conch.now_us();
  ms := t / 1000;
  if not_after <> 0 and t > not_after then return array[3, 0, t]; end if;
  l := conch.without_expired(l, ms);
  if l.hash_until <> -1 then perform conch.wrong_kind(); end if;
  remains := conch.quiet(greatest(lease, claim), t);
  if l.owner_until <> -1 then
    if l.owner = me then
      l.claimed := false;
      l.owner_until := greatest(l.owner_until, ms + lease);
      perform conch.put(l);
      return array[1, l.owner_fence, t];
    end if;
    remains := greatest(l.owner_until - ms, remains);
  end if;
  if l.owner_until <> -1 or remains > 0 then
    if waits then
      q := conch.enqueue(k, me, '', shown, t);
      l := conch.keep_line(l, remains + lease, ms);
    end if;
    perform conch.put(l);
    return case when waits then array[0, remains, t, q] else array[2, remains, t] end;
  end if;
  if l.waiting then
    if waits then
      q := conch.enqueue(k, me, '', shown, t);
      l := conch.keep_line(l, claim + lease, ms);
    end if;
    if patient and conch.awaits(k, me) then
      perform conch.put(l);
      return case when waits then array[0, soon, t, q] else array[2, soon, t] end;
    end if;
    l := conch.pass_on(l, me, lease, claim, retention, 0, t);
  end if;
  if l.owner_until = -1 then
    l := conch.next_fence(l, 0, retention, t);
    l.owner := me; l.owner_fence := l.fence; l.claimed := false; l.owner_until := ms + lease;
  end if;
  perform conch.put(l);
  return case when l.owner = me then array[1, l.owner_fence, t]
              when waits then array[0, claim, t, q, l.waiting::int] else array[2, claim, t, 0, l.waiting::int] end;
end $$;

create or replace function conch.adopt(k bytea, me text, lease bigint, retention bigint, not_after bigint, origin text)
returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint;
begin
  l := conch.load(k);
  t := conch.now_us();
  ms := t / 1000;
  if not_after <> 0 and t > not_after then return array[3, 0, t]; end if;
  l := conch.without_expired(l, ms);
  if l.hash_until <> -1 then perform conch.wrong_kind(); end if;
  perform conch.quiet(lease, t);
  if l.owner_until <> -1 and l.owner = me then
    l.claimed := false;
    l.owner_until := greatest(l.owner_until, ms + lease);
  elsif l.owner_until <> -1 and l.owner || ' ' || l.owner_fence = origin then
    l.owner := me; l.claimed := false; l.owner_until := ms + lease;
  else
    return array[2, 0, t];
  end if;
  l := conch.keep_fence(l, l.owner_fence, retention, t);
  perform conch.put(l);
  return array[1, l.owner_fence, t];
end $$;

-- All rows first, in one order: two such commands would wait for each other.
create or replace function conch.lock_rows(ks bytea[], make boolean) returns void language plpgsql as $$
declare there bigint;
begin
  if make then
    select count(*) into there from conch.lock x where x.key = any (ks);
    if there < cardinality(ks) then insert into conch.lock (key) select distinct k from unnest(ks) k order by k on conflict do nothing; end if;
  end if;
  perform 1 from conch.lock x where x.key = any (ks) order by x.key for update;
end $$;

create or replace function conch.acquire_all(ks bytea[], ids text[], leases bigint[], retention bigint, not_after bigint)
returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; r bigint[];
begin
  perform conch.lock_rows(ks, true);
  t := conch.now_us();
  ms := t / 1000;
  if not_after <> 0 and t > not_after then return array[3, 0, t]; end if;
  r := array[t];
  if conch.quiet((select max(x) from unnest(leases) x), t) > 0 then return r; end if;
  for i in 1 .. cardinality(ks) loop
    l := conch.without_expired(conch.load(ks[i]), ms);
    if l.owner_until = -1 and l.hash_until = -1 and not l.waiting then
      l := conch.next_fence(l, 0, retention, t);
      l.owner := ids[i]; l.owner_fence := l.fence; l.claimed := false; l.owner_until := ms + leases[i];
    elsif l.owner_until <> -1 and l.owner = ids[i] then
      l.claimed := false;
      l.owner_until := greatest(l.owner_until, ms + leases[i]);
    else
      exit;
    end if;
    perform conch.put(l);
    r := r || l.owner_fence;
  end loop;
  return r;
end $$;

create or replace function conch.release(k bytea, me text, keep boolean, patient boolean, lease bigint, claim bigint, retention bigint, again text)
returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; q bigint; mine boolean; floor bigint; remains bigint;
  seen tid; l_until bigint; f bigint; head text; place tid; others boolean; clock bigint; told text;
begin
  if not keep and again = '' then  -- the usual cases: it is the owner's, and nobody waits ...
    update conch.lock x set owner_until = -1 from (select conch.now_us() / 1000 as ms) c
    where x.key = k and x.owner = me and x.owner_until >= c.ms and not x.waiting and x.alert_until = -1;
    if found then return array[1]; end if;
    if not patient then
      -- ... or the first in line hears: the rest of this function, in fewer statements. Whoever changes the line changes the row, too. So what is
      -- read here still holds when the row is the same.
      t := conch.now_us();
      ms := t / 1000;
      select x.ctid, x.owner_fence, x.line_until, greatest(x.owner_fence, case when x.fence_until >= ms then x.fence end), q.id, q.ctid,
        exists (select from conch.line z where z.key = k and z.ctid <> q.ctid)
      into seen, floor, l_until, f, head, place, others
      from conch.lock x, lateral (select y.id, y.rest, y.ctid from conch.line y where y.key = x.key order by y.ticket, y.id, y.rest limit 1) q
      where x.key = k and x.owner = me and x.owner_until >= ms and x.waiting and x.line_until >= ms and x.hash_until = -1 and q.rest = ''
        and exists (select from conch.alive a where claim <= a.longest);
      if found and conch.hears(head) then
        clock := t - 1577836800000000;
        f := greatest(clock, f + 1);
        update conch.lock x set owner = head, owner_fence = f, claimed = true, owner_until = ms + claim, fence = f,
          fence_until = ms + retention + (f - clock + 999) / 1000, waiting = others, line_until = case when others then l_until else -1 end
        where x.key = k and (x.ctid = seen) is true  -- not by a scan of ctids: that one takes a row that somebody has changed meanwhile
        returning pg_notify('conch_' || split_part(head, '.', 1),
          '+ ' || head || ' ' || f || ' ' || t || ' ' || claim || ' 0 0 ' || encode(k, 'hex'))::text into told;
        if found then
          delete from conch.line q where q.ctid = place;
          return array[1, 1, others::int, t];
        end if;
      end if;
    end if;
  end if;
  l := conch.load(k);
  t := conch.now_us();
  ms := t / 1000;
  l := conch.without_expired(l, ms);
  if l.hash_until <> -1 then perform conch.wrong_kind(); end if;
  remains := conch.quiet(greatest(lease, claim), t);
  mine := l.owner_until <> -1 and l.owner = me;
  if mine and keep then
    l.claimed := false;
    l.owner_until := greatest(l.owner_until, ms + lease);
    perform conch.put(l);
    return array[2, l.owner_fence, 0, t];
  end if;
  floor := case when mine then l.owner_fence else 0 end;
  if not mine then
    l := conch.leave_line(l, me, '');
    if l.owner_until <> -1 or remains > 0 then
      if again <> '' then
        if l.owner_until <> -1 then remains := greatest(remains, l.owner_until - ms); end if;
        q := conch.enqueue(k, again, '', 0, t);
        l := conch.keep_line(l, remains + lease, ms);
      end if;
      perform conch.put(l);
      return case when again = '' then array[0, 0, 0, t] else array[0, 0, 1, t, 0, remains, q] end;
    end if;
  end if;
  if patient and l.waiting and conch.awaits(k, null) then
    perform conch.put(l);
    return array[case when mine then 3 else 0 end, 0, 1, t];
  end if;
  l.owner_until := -1;
  if not l.waiting then
    if again = '' then
      l := conch.tell_freed(l);
      perform conch.put(l);
      return case when mine then array[1] else array[0, 0, 0, t] end;
    end if;
    l := conch.next_fence(l, floor, retention, t);
    l.owner := again; l.owner_fence := l.fence; l.claimed := false; l.owner_until := ms + lease;
    perform conch.put(l);
    return array[mine::int, 0, 0, t, 1, l.owner_fence];
  end if;
  if again <> '' then
    q := conch.enqueue(k, again, '', 0, t);
    l := conch.keep_line(l, claim + lease, ms);
  end if;
  l := conch.pass_on(l, nullif(again, ''), lease, claim, retention, floor, t);
  if l.owner_until = -1 then l := conch.tell_freed(l); end if;
  perform conch.put(l);
  return case when l.owner_until <> -1 and l.owner = again then array[mine::int, 0, l.waiting::int, t, 1, l.owner_fence]
              when again <> '' then array[mine::int, 1, l.waiting::int, t, 0, claim, q]
              else array[mine::int, (l.owner_until <> -1)::int, l.waiting::int, t] end;
end $$;

create or replace function conch.renew(ks bytea[], ids text[], fences bigint[], leases bigint[], retention bigint)
returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; r bigint[]; ok integer;
begin
  perform conch.lock_rows(ks, false);
  t := conch.now_us();
  ms := t / 1000;
  perform conch.quiet((select max(x) from unnest(leases) x), t);
  r := array[t];
  for i in 1 .. cardinality(ks) loop
    update conch.lock x set claimed = false, owner_until = greatest(x.owner_until, ms + leases[i])
    where x.key = ks[i] and x.owner = ids[i] and x.owner_until >= ms and (fences[i] = 0 or x.owner_fence = fences[i])
    returning * into l;
    get diagnostics ok = row_count;
    if ok > 0 and retention <> 0 then
      l := conch.keep_fence(conch.without_expired(l, ms), l.owner_fence, retention, t);
      perform conch.put(l);
    end if;
    r := r || ok::bigint;
  end loop;
  return r;
end $$;

-- Locks with several owners, each with a share of a limit: semaphore (115, s), shared_mutex (114, r), striped_mutex (103, g), reentrant_mutex
-- (101, e). Letters and rules are those of lua/lib/permits.lua.

-- The lock as one of that kind, without the leases that have expired.
create or replace function conch.permits(l conch.lock, wanted integer, lim bigint, retention bigint, t bigint) returns conch.lock language plpgsql as $$
begin
  if l.owner_until <> -1 or (l.hash_until <> -1 and l.kind <> wanted) then perform conch.wrong_kind(); end if;
  if l.hash_until = -1 then
    l.lim := lim; l.used := 0; l.first_end := 0; l.map := ''; l.limit_set := false;
  end if;
  l.kind := wanted;
  if l.used > 0 and l.first_end <= t then l := conch.end_leases(l, retention, t); end if;
  if l.used = 0 then
    if not l.limit_set then l.lim := lim; end if;
    l.first_end := 0;
    l.map := case when wanted = 103 then repeat('0', l.lim::int) else '' end;
  end if;
  return l;
end $$;

create or replace function conch.mark(map text, segment bigint, taken text) returns text language sql immutable as
$$ select case when segment = 0 then map else overlay(map placing taken from segment::int for 1) end $$;

-- After a change of `used`: with nothing taken and no limit set, nothing is left.
create or replace function conch.note_used(l conch.lock, retention bigint, t bigint) returns conch.lock language plpgsql as $$
begin
  if l.used = 0 and not l.limit_set then
    delete from conch.part p where p.key = l.key;
    l.hash_until := -1;
  elsif l.limit_set and conch.left_of(l.hash_until, t / 1000) < retention then
    l.hash_until := t / 1000 + retention;
  end if;
  return l;
end $$;

create or replace function conch.end_leases(l conch.lock, retention bigint, t bigint) returns conch.lock language plpgsql as $$
declare s bigint;
begin
  for s in delete from conch.part p where p.key = l.key and p.ends <= t returning p.segment loop
    l.map := conch.mark(l.map, s, '0');
  end loop;
  select coalesce(sum(p.weight), 0), coalesce(min(p.ends), 0) into l.used, l.first_end from conch.part p where p.key = l.key;
  return conch.note_used(l, retention, t);
end $$;

create or replace function conch.take_back(l conch.lock, p conch.part, retention bigint, t bigint) returns conch.lock language plpgsql as $$
begin
  l.used := l.used - p.weight;
  l.map := conch.mark(l.map, p.segment, '0');
  delete from conch.part x where x.key = l.key and x.id = p.id;
  return conch.note_used(l, retention, t);
end $$;

create or replace function conch.live(l conch.lock, lease bigint, t bigint) returns conch.lock language plpgsql as $$
begin
  if conch.left_of(l.hash_until, t / 1000) < lease then l.hash_until := t / 1000 + lease; end if;
  return l;
end $$;

create or replace function conch.own_part(l conch.lock, id_ text, size bigint, is_claim boolean, lease bigint, s bigint, for_whom text, retention bigint,
  t bigint) returns conch.lock language plpgsql as $$
declare e bigint := t + lease * 1000;
begin
  l.first_end := case when l.used = 0 then e else least(l.first_end, e) end;
  l.used := l.used + size;
  if l.kind = 101 then l.map := for_whom; end if;
  l.map := conch.mark(l.map, s, '1');
  l := conch.note_used(l, retention, t);
  insert into conch.part values (l.key, id_, size, l.fence, is_claim, e, s)
    on conflict (key, id) do update set weight = excluded.weight, fence = excluded.fence, claimed = excluded.claimed, ends = excluded.ends,
      segment = excluded.segment;
  return conch.live(l, lease, t);
end $$;

create or replace function conch.extend_part(l conch.lock, id_ text, lease bigint, retention bigint, t bigint) returns conch.lock language plpgsql as $$
begin
  update conch.part p set claimed = false, ends = greatest(p.ends, t + lease * 1000) where p.key = l.key and p.id = id_;
  return conch.live(conch.note_used(l, retention, t), lease, t);
end $$;

-- The segment for such an owner, 0 where there are none; null: it does not fit. `unwanted`: segments, as ',3,7,', or the owner of a reentrant lock.
create or replace function conch.fit(l conch.lock, size bigint, unwanted text, start bigint) returns bigint language plpgsql as $$
declare refused bigint[]; free bytea; s bigint;
begin
  if l.used >= l.lim then return null; end if;
  if l.kind = 101 then return case when l.used = 0 or l.map = unwanted then 0 end; end if;
  if l.kind <> 103 then return case when l.used + least(size, l.lim) <= l.lim then 0 end; end if;
  refused := array(select m[1]::bigint from regexp_matches(unwanted, '\d+', 'g') m);
  free := convert_to(l.map, 'UTF8');
  for i in 0 .. l.lim - 1 loop
    s := (start + i) % l.lim + 1;
    if get_byte(free, (s - 1)::int) = 48 and s <> all (refused) then return s; end if;
  end loop;
  return null;
end $$;

do $$ begin
  if to_regtype('conch.admitted') is null then create type conch.admitted as (l conch.lock, fence bigint, segment bigint, others bigint); end if;
end $$;

-- Lets in those in line who fit. `who` is the asker, who is told by the answer; '': nobody. In the order of the line the first that does not fit
-- stops it; with segments, and where permits belong to one owner, it is passed over.
create or replace function conch.admit(l conch.lock, who text, me text, my_lease bigint, floor bigint, claim bigint, retention bigint, t bigint)
returns conch.admitted language plpgsql as $$
declare q record; s bigint; size bigint; f bigint := floor; ready boolean := false; r conch.admitted; in_order boolean := l.kind in (114, 115);
begin
  r.others := 0;
  if l.waiting and l.used < l.lim and conch.quiet(0, t) = 0 then
    for q in select x.ctid as place, x.id, x.rest, split_part(x.rest, ' ', 2) as weight, split_part(x.rest, ' ', 3) as visited
             from conch.line x where x.key = l.key order by x.ticket, x.id, x.rest loop
      exit when l.used >= l.lim;
      if q.rest = '' or (q.id = me and who = '') then
        delete from conch.line x where x.ctid = q.place;
        continue;
      end if;
      s := conch.fit(l, q.weight::bigint, q.visited, 0);
      if s is null then
        exit when in_order;
        continue;
      end if;
      if not ready then
        l := conch.next_fence(l, f, retention, t);
        f := l.fence;
        ready := true;
      end if;
      delete from conch.line x where x.ctid = q.place;
      size := least(q.weight::bigint, l.lim);
      if q.id = who then
        l := conch.own_part(l, q.id, size, false, my_lease, s, q.visited, retention, t);
        r.fence := f;
        r.segment := s;
        ready := false;
      elsif conch.hears(q.id) then
        perform conch.grant(q.id, f, t, claim, l.kind, s, l.key);
        l := conch.own_part(l, q.id, size, true, claim, s, q.visited, retention, t);
        r.others := r.others + 1;
        ready := false;
      end if;
    end loop;
    l := conch.shorter_line(l);
  end if;
  r.l := l;
  return r;
end $$;

-- A head that is too large to be admitted gets no push, so nobody would see that it is dead.
create or replace function conch.drop_dead(l conch.lock, me text, rest_ text) returns conch.lock language plpgsql as $$
declare q record;
begin
  for q in select x.ctid as place, x.id, x.rest from conch.line x where x.key = l.key order by x.ticket, x.id, x.rest loop
    exit when (q.id = me and q.rest = rest_) or conch.hears(q.id);
    delete from conch.line x where x.ctid = q.place;
  end loop;
  return conch.shorter_line(l);
end $$;

create or replace function conch.acquire_permit(k bytea, me text, waits boolean, patient boolean, lease bigint, claim bigint, retention bigint,
  shown bigint, not_after bigint, kind integer, lim bigint, weight bigint, visited text, start bigint) returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; q bigint := shown; mine conch.part; r conch.admitted; rest text := ' ' || weight || ' ' || visited;
  remains bigint; s bigint; size bigint; passed integer := 0; nobody boolean; in_line boolean; soon constant bigint := 20;
begin
  l := conch.load(k);
  t := conch.now_us();
  ms := t / 1000;
  if not_after <> 0 and t > not_after then return array[3, 0, t]; end if;
  remains := conch.quiet(greatest(lease, claim), t);
  l := conch.permits(conch.without_expired(l, ms), kind, lim, retention, t);
  select * into mine from conch.part p where p.key = k and p.id = me and p.ends > t;
  if found then
    l := conch.extend_part(l, me, lease, retention, t);
    r := conch.admit(l, '', me, 0, 0, claim, retention, t);
    perform conch.put(r.l);
    return array[1, mine.fence, t, case when weight = 0 then mine.weight else mine.segment end];
  end if;
  nobody := not l.waiting;
  in_line := l.waiting;
  if remains > 0 or (patient and not nobody and conch.awaits(k, me)) then
    if remains = 0 then remains := soon; end if;
    if waits then
      q := conch.enqueue(k, me, rest, shown, t);
      l := conch.keep_line(l, greatest(conch.left_of(l.hash_until, ms), claim, remains) + lease, ms);
    end if;
    perform conch.put(l);
    return case when waits then array[0, remains, t, q, 0] else array[2, remains, t, 0, 0] end;
  end if;
  if not nobody then
    if waits then
      q := conch.enqueue(k, me, rest, shown, t);
      l := conch.keep_line(l, greatest(conch.left_of(l.hash_until, ms), claim) + lease, ms);
    end if;
    if shown > 0 then l := conch.drop_dead(l, me, rest); end if;
    r := conch.admit(l, me, me, lease, 0, claim, retention, t);
    l := r.l;
    if r.fence is not null then
      perform conch.put(l);
      return array[1, r.fence, t, r.segment];
    end if;
    nobody := not l.waiting;
    passed := (r.others > 0 and not nobody)::int;
  end if;
  if not (in_line and waits) and (nobody or kind in (101, 103)) then s := conch.fit(l, weight, visited, start); end if;
  if s is not null then
    l := conch.next_fence(l, 0, retention, t);
    size := case when weight = 0 then l.lim - l.used else least(weight, l.lim) end;
    l := conch.own_part(l, me, size, false, lease, s, visited, retention, t);
    perform conch.put(l);
    return array[1, l.fence, t, case when weight = 0 then size else s end];
  end if;
  if l.used > 0 and l.first_end < t + claim * 500 then l := conch.end_leases(l, retention, t); end if;
  remains := case when l.used = 0 then claim else (l.first_end - t + 999) / 1000 end;
  if waits and not in_line then
    q := conch.enqueue(k, me, rest, shown, t);
    l := conch.keep_line(l, greatest(conch.left_of(l.hash_until, ms), claim) + lease, ms);
  end if;
  perform conch.put(l);
  return case when waits then array[0, remains, t, q, passed] else array[2, remains, t, 0, passed] end;
end $$;

create or replace function conch.adopt_permit(k bytea, me text, lease bigint, retention bigint, not_after bigint, origin text, kind_ integer)
returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; mine conch.part;
begin
  l := conch.load(k);
  t := conch.now_us();
  ms := t / 1000;
  if not_after <> 0 and t > not_after then return array[3, 0, t]; end if;
  l := conch.without_expired(l, ms);
  if l.owner_until <> -1 or (l.hash_until <> -1 and l.kind <> kind_) then perform conch.wrong_kind(); end if;
  perform conch.quiet(lease, t);
  update conch.part p set claimed = false, ends = greatest(p.ends, t + lease * 1000)
  where p.key = k and p.id = me and p.ends > t and p.weight > 0 returning * into mine;
  if not found then
    delete from conch.part p where p.key = k and p.id = split_part(origin, ' ', 1) and p.fence::text = split_part(origin, ' ', 2) and p.ends > t
      and p.weight > 0 returning * into mine;
    if not found then return array[2, 0, t]; end if;
    delete from conch.part p where p.key = k and p.id = me;
    insert into conch.part values (k, me, mine.weight, mine.fence, false, greatest(mine.ends, t + lease * 1000), mine.segment);
  end if;
  l := conch.keep_fence(conch.live(l, lease, t), mine.fence, retention, t);
  perform conch.put(l);
  return array[1, mine.fence, t, mine.segment];
end $$;

create or replace function conch.release_permit(k bytea, me text, keep boolean, patient boolean, lease bigint, claim bigint, retention bigint,
  kind integer, lim bigint, weight bigint, visited text, keeps bigint) returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; mine conch.part; r conch.admitted; is_mine boolean; floor bigint := 0;
begin
  l := conch.load(k);
  t := conch.now_us();
  perform conch.quiet(greatest(lease, claim), t);
  l := conch.permits(conch.without_expired(l, t / 1000), kind, lim, retention, t);
  select * into mine from conch.part p where p.key = k and p.id = me and p.ends > t;
  is_mine := found;
  if is_mine and keep then
    l := conch.extend_part(l, me, lease, retention, t);
    r := conch.admit(l, '', me, 0, 0, claim, retention, t);
    perform conch.put(r.l);
    return array[2, mine.fence, case when weight = 0 then mine.weight else mine.segment end, t];
  end if;
  if is_mine and patient and l.waiting and conch.awaits(k, null) then
    perform conch.put(l);
    return array[3, 0, 1, t];
  end if;
  if not is_mine then
    l := conch.leave_line(l, me, ' ' || weight || ' ' || visited);
  elsif keeps > 0 then
    floor := mine.fence;
    l.used := l.used - greatest(mine.weight - keeps, 0);
    update conch.part p set weight = least(p.weight, keeps) where p.key = k and p.id = me;
    l := conch.note_used(l, retention, t);
  else
    floor := mine.fence;
    l := conch.take_back(l, mine, retention, t);
  end if;
  r := conch.admit(l, '', me, 0, floor, claim, retention, t);
  l := r.l;
  if l.used = 0 and conch.quiet(0, t) = 0 then l := conch.tell_freed(l); end if;
  perform conch.put(l);
  return array[is_mine::int, (r.others > 0)::int, l.waiting::int, t];
end $$;

create or replace function conch.renew_permits(ks bytea[], ids text[], fences bigint[], leases bigint[], retention bigint)
returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; r bigint[]; f bigint; ok boolean;
begin
  perform conch.lock_rows(ks, false);
  t := conch.now_us();
  ms := t / 1000;
  perform conch.quiet((select max(x) from unnest(leases) x), t);
  r := array[t];
  for i in 1 .. cardinality(ks) loop
    update conch.part p set claimed = false, ends = greatest(p.ends, t + leases[i] * 1000) from conch.lock x
    where x.key = ks[i] and x.hash_until >= ms and p.key = ks[i] and p.id = ids[i] and p.ends > t and (fences[i] = 0 or p.fence = fences[i])
    returning p.fence into f;
    ok := found;
    if ok then
      select * into l from conch.lock x where x.key = ks[i];
      l := conch.live(l, leases[i], t);
      if retention <> 0 then l := conch.keep_fence(conch.without_expired(l, ms), f, retention, t); end if;
      perform conch.put(l);
    end if;
    r := r || ok::int::bigint;
  end loop;
  return r;
end $$;

create or replace function conch.set_limit(k bytea, claim bigint, retention bigint, lim bigint, by bigint, if_unset boolean)
returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; r conch.admitted;
begin
  l := conch.load(k);
  t := conch.now_us();
  perform conch.quiet(claim, t);
  l := conch.permits(conch.without_expired(l, t / 1000), 115, lim, retention, t);
  if not (l.limit_set and if_unset) then
    l.limit_set := true;
    l.lim := case when by <> 0 then least(greatest(l.lim + by, 1), 1000000) else lim end;
    l := conch.note_used(l, retention, t);
  end if;
  r := conch.admit(l, '', '', 0, 0, claim, retention, t);
  perform conch.put(r.l);
  return array[(r.l).used, t, ((r.l).waiting and r.others > 0)::int, (r.l).lim];
end $$;

-- The functions for operators: who has a lock, taking it away, asking for it, waiting until it is free.

-- By fence; of a lock with more than 1000 owners none.
create or replace function conch.owners(l conch.lock, t bigint) returns setof conch.part language sql stable as $$
  select (l).key, (l).owner, 1::bigint, (l).owner_fence, (l).claimed, (l).owner_until * 1000, 0::bigint
    where (l).hash_until < t / 1000 and (l).owner_until >= t / 1000
  union all
  (select p.* from conch.part p where p.key = (l).key and (l).hash_until >= t / 1000 and p.ends > t
     and (select count(*) from conch.part x where x.key = (l).key) <= 1000 order by p.fence)
$$;

-- ms; a mutex' lease ends at a whole ms.
create or replace function conch.owner_left(p conch.part, t bigint, several boolean) returns bigint language sql immutable as
$$ select case when several then (p.ends - t + 999) / 1000 else greatest(p.ends / 1000 - t / 1000, 0) end $$;

create or replace function conch.words_of(client text) returns bigint[] language sql immutable as $$
  select array_agg(case when d ~ '^[0-9a-f]+$' then ('x' || lpad(d, 8, '0'))::bit(32)::bigint else 0 end order by i)
  from (select i, substr(client, 8 * i + 1, 8) as d from generate_series(0, 3) i) x $$;

create or replace function conch.inspect(k bytea) returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; p conch.part; r bigint[]; asked bigint[] := '{}'; n bigint; w bigint := 0; several boolean; q conch.request;
  count_ bigint := 0; taken bigint := 0;
begin
  select * into l from conch.lock x where x.key = k;
  t := conch.now_us();
  ms := t / 1000;
  if l.key is null then return array[t, 0, 0, 0, 1, 0]; end if;
  several := l.hash_until >= ms;
  if l.line_until >= ms then select count(*) into w from conch.line x where x.key = k; end if;
  if several then
    select count(*) into n from conch.part x where x.key = k;
    if n > 1000 then return array[t, w, n, l.used, l.lim, l.kind]; end if;
  end if;
  for p in select * from conch.owners(l, t) loop
    count_ := count_ + 1;
    taken := taken + p.weight;
    continue when count_ > 100;
    r := r || conch.words_of(conch.client(p.id)) ||
         array[p.fence, conch.owner_left(p, t, several), p.weight, p.segment, (not p.claimed)::int];
    if l.requests_until >= ms then
      select * into q from conch.request x where x.key = k and x.owner_fence = p.fence;
      if found then asked := asked || count_ || conch.words_of(q.asker) || q.at; end if;
    end if;
  end loop;
  return array[t, w, count_, taken, case when several then l.lim else 1 end, case when several then l.kind else 0 end] || r || asked;
end $$;

create or replace function conch.force(k bytea, claim bigint, retention bigint, f bigint) returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; r conch.admitted; p conch.part; n bigint := 0; last bigint := 0; is_owned boolean;
begin
  l := conch.load(k);
  t := conch.now_us();
  l := conch.without_expired(l, t / 1000);
  perform conch.quiet(claim, t);
  if l.hash_until = -1 then
    if l.owner_until = -1 or (f > 0 and l.owner_fence <> f) then return array[0, t]; end if;
    perform conch.tell(l.owner, '!', k);
    l.owner_until := -1;
    if l.waiting then l := conch.pass_on(l, null, 0, claim, retention, l.owner_fence, t); end if;
    is_owned := l.owner_until <> -1;
    if not is_owned then l := conch.tell_freed(l); end if;
    perform conch.put(l);
    return case when is_owned then array[1, t, l.waiting::int, 0, 1] else array[1, t] end;
  end if;
  l := conch.permits(l, l.kind, l.lim, retention, t);
  for p in select * from conch.part x where x.key = k and x.weight > 0 and (f = 0 or x.fence = f) order by x.fence loop
    perform conch.tell(p.id, '!', k);
    l := conch.take_back(l, p, retention, t);
    n := n + 1;
    last := p.fence;
  end loop;
  r.others := 0;
  if n > 0 then
    r := conch.admit(l, '', '', 0, last, claim, retention, t);
    l := r.l;
  end if;
  if l.used = 0 then l := conch.tell_freed(l); end if;
  perform conch.put(l);
  return case when r.others > 0 then array[n, t, l.waiting::int, l.kind, l.lim] else array[n, t] end;
end $$;

create or replace function conch.ask(k bytea, f bigint, asker_ text) returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; p conch.part; n bigint := 0; longest bigint := 1;
begin
  l := conch.load(k);
  t := conch.now_us();
  ms := t / 1000;
  l := conch.without_expired(l, ms);
  for p in select * from conch.owners(l, t) o where f = 0 or o.fence = f limit 100 loop
    n := n + 1;
    longest := greatest(longest, conch.owner_left(p, t, l.hash_until <> -1));
    insert into conch.request values (k, p.fence, asker_, t) on conflict (key, owner_fence) do update set asker = excluded.asker, at = excluded.at;
    perform conch.tell(p.id, '*', k);
  end loop;
  if n > 0 then l.requests_until := greatest(l.requests_until, ms + longest); end if;
  perform conch.put(l);
  return array[n, t];
end $$;

create or replace function conch.asked(k bytea, f bigint) returns bigint[] language sql as $$
  select array[count(*)] from conch.request r join conch.lock l on l.key = r.key
  where r.key = k and r.owner_fence = f and l.requests_until >= conch.now_us() / 1000 $$;

create or replace function conch.watch(k bytea, me text, lease bigint) returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; n bigint := 0; longest bigint := 1; many boolean; p conch.part; remains bigint;
begin
  l := conch.load(k);
  t := conch.now_us();
  ms := t / 1000;
  l := conch.without_expired(l, ms);
  l := conch.forget_watcher(l, me);
  remains := conch.quiet(0, t);
  many := l.hash_until <> -1 and (select count(*) from conch.part x where x.key = k) > 1000;
  for p in select * from conch.owners(l, t) loop
    n := n + 1;
    longest := greatest(longest, conch.owner_left(p, t, l.hash_until <> -1));
  end loop;
  if n = 0 and not many and remains = 0 then
    if me = '' then
      l.alert_until := ms;
      l := conch.tell_freed(l);
    end if;
    perform conch.put(l);
    return array[1, 0, t];
  end if;
  if many then longest := conch.left_of(l.hash_until, ms); end if;
  longest := greatest(longest, remains);
  if me <> '' then
    insert into conch.watcher values (k, t, me) on conflict do nothing;
    l.watchers_until := ms + greatest(longest + lease, conch.left_of(l.watchers_until, ms));
    l.alert_until := l.watchers_until;
  end if;
  perform conch.put(l);
  return array[0, longest, t];
end $$;

create or replace function conch.forget_watcher(l conch.lock, me text) returns conch.lock language plpgsql as $$
begin
  if l.watchers_until = -1 then return l; end if;
  delete from conch.watcher w where w.key = l.key and w.id = me;
  if not exists (select from conch.watcher w where w.key = l.key) then l.watchers_until := -1; end if;
  return l;
end $$;

create or replace function conch.unwatch(k bytea, me text) returns bigint[] language plpgsql as $$
declare l conch.lock; n bigint;
begin
  l := conch.load(k);
  l := conch.without_expired(l, conch.now_us() / 1000);
  select count(*) into n from conch.watcher w where w.key = k and w.id = me;
  perform conch.put(conch.forget_watcher(l, me));
  return array[n];
end $$;

-- What a client says about its connection.

create or replace function conch.microseconds(moment timestamptz) returns text language sql immutable as
$$ select (extract(epoch from moment) * 1000000)::bigint::text $$;

create or replace function conch.connect(client text, out version integer, out server_us bigint, out run text, out started text)
language plpgsql as $$
begin
  perform set_config('conch.client', client, false);
  version := conch.version();
  server_us := conch.now_us();
  perform conch.quiet(0, server_us);
  -- Another run: the connections of all clients have ended, or the tables are empty.
  select a.since || '.' || conch.microseconds(pg_postmaster_start_time()) into run from conch.alive a;
  select conch.microseconds(a.backend_start) into started from pg_stat_get_activity(pg_backend_pid()) a;
end $$;

create or replace function conch.hear(client text) returns bigint[] language plpgsql as $$
begin
  perform pg_advisory_lock(conch.key_of(client));
  return array[1];
end $$;

create or replace function conch.proves(client text) returns bigint[] language sql as
$$ select array[count(*)] from pg_listening_channels() c where c = conch.channel(client) $$;

-- Ends an earlier connection of the same client, and waits for its end: what was sent on it is carried out before, or never.
create or replace function conch.end_connection(process bigint, began text) returns bigint[] language plpgsql as $$
begin
  if process > 2147483647 then return array[0]; end if;
  for i in 0 .. 30 loop
    perform 1 from pg_stat_get_activity(process::int) a where conch.microseconds(a.backend_start) = began;
    if not found then return array[(i > 0)::int]; end if;
    if i = 0 then perform pg_terminate_backend(process::int); end if;
    perform pg_sleep(0.01);
    perform pg_stat_clear_snapshot();
  end loop;
  raise exception using errcode = 'CN002', message = 'an earlier connection of this client has not ended yet';
end $$;

