-- The functions for operators: show the owners of a lock, take it away, ask for it, wait until it is free.

-- The owners in the order of their fences; none if there are more than 1000.
create or replace function conch.owners(l conch.lock, t bigint) returns setof conch.part language sql stable as $$
  select (l).key, (l).owner, 1::bigint, (l).owner_fence, (l).claimed, (l).owner_until * 1000, 0::bigint
    where (l).hash_until < t / 1000 and (l).owner_until >= t / 1000
  union all
  (select p.* from conch.part p where p.key = (l).key and (l).hash_until >= t / 1000 and p.ends > t
     and (select count(*) from conch.part x where x.key = (l).key) <= 1000 order by p.fence)
$$;

-- In ms. The lease of a mutex ends at a whole ms.
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

-- The same, and for each of the first 100 waiters 0, its client, since when it waits, and what it asks for.
create or replace function conch.inspect_line(k bytea) returns bigint[] language plpgsql as $$
declare r bigint[] := conch.inspect(k); q conch.line;
begin
  if r[2] = 0 then return r; end if;
  for q in select * from conch.line x where x.key = k order by x.ticket, x.id, x.rest limit 100 loop
    r := r || 0::bigint || conch.words_of(conch.client(q.id)) || q.ticket || coalesce(nullif(split_part(q.rest, ' ', 2), '')::bigint, 1);
  end loop;
  return r;
end $$;

-- Empty `words_`: the client is gone.
create or replace function conch.introduce(client_ text, words_ text, kept bigint) returns bigint[] language plpgsql as $$
declare ms bigint := conch.now_us() / 1000;
begin
  delete from conch.introduction i where i.until < ms or (i.client = client_ and words_ = '');
  if words_ <> '' then
    insert into conch.introduction values (client_, words_, ms + kept)
      on conflict (client) do update set words = excluded.words, until = excluded.until;
  end if;
  return array[]::bigint[];
end $$;

-- After a mark: it is not a list of numbers.
create or replace function conch.identify(client_ text) returns text language sql as $$
  select '=' || coalesce((select i.words from conch.introduction i where i.client = client_ and i.until >= conch.now_us() / 1000), '') $$;

-- Takes the lock from all owners (`everyone`), or from the one with fence `f`.
create or replace function conch.force(k bytea, claim bigint, retention bigint, everyone boolean, f bigint) returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; r conch.let_in; p conch.part; n bigint := 0; last bigint := 0; is_owned boolean;
begin
  l := conch.load(k);
  t := conch.now_us();
  l := conch.without_expired(l, t / 1000);
  perform conch.quiet(claim, t);
  if l.hash_until = -1 then
    if l.owner_until = -1 or (not everyone and l.owner_fence <> f) then return array[0, t]; end if;
    perform conch.tell(l.owner, '!', k);
    l.owner_until := -1;
    if l.waiting then l := conch.pass_on(l, null, 0, claim, retention, l.owner_fence, t); end if;
    is_owned := l.owner_until <> -1;
    if not is_owned then l := conch.tell_freed(l); end if;
    perform conch.put(l);
    return case when is_owned then array[1, t, l.waiting::int, 0, 1] else array[1, t] end;
  end if;
  l := conch.permits(l, l.kind, l.lim, retention, t);
  for p in select * from conch.part x where x.key = k and x.weight > 0 and (everyone or x.fence = f) order by x.fence loop
    perform conch.tell(p.id, '!', k);
    l := conch.take_back(l, p, retention, t);
    n := n + 1;
    last := p.fence;
  end loop;
  r.others := 0;
  if n > 0 then
    r := conch.let_in(l, '', '', false, 0, last, claim, retention, t);
    l := r.l;
  end if;
  if l.used = 0 then l := conch.tell_freed(l); end if;
  perform conch.put(l);
  return case when r.others > 0 then array[n, t, l.waiting::int, l.kind, l.lim] else array[n, t] end;
end $$;

-- For programs of version 0.2.0, which prepare this when they connect. No fence is 0, so 0 means all owners.
create or replace function conch.force(k bytea, claim bigint, retention bigint, f bigint) returns bigint[] language plpgsql as
$$ begin return conch.force(k, claim, retention, f = 0, f); end $$;

create or replace function conch.ask(k bytea, everyone boolean, f bigint, asker_ text) returns bigint[] language plpgsql as $$
declare l conch.lock; t bigint; ms bigint; p conch.part; n bigint := 0; longest bigint := 1;
begin
  l := conch.load(k);
  t := conch.now_us();
  ms := t / 1000;
  l := conch.without_expired(l, ms);
  for p in select * from conch.owners(l, t) o where everyone or o.fence = f limit 100 loop
    n := n + 1;
    longest := greatest(longest, conch.owner_left(p, t, l.hash_until <> -1));
    insert into conch.request values (k, p.fence, asker_, t) on conflict (key, owner_fence) do update set asker = excluded.asker, at = excluded.at;
    perform conch.tell(p.id, '*', k);
  end loop;
  if n > 0 then l.requests_until := greatest(l.requests_until, ms + longest); end if;
  perform conch.put(l);
  return array[n, t];
end $$;

create or replace function conch.ask(k bytea, f bigint, asker_ text) returns bigint[] language plpgsql as  -- for 0.2.0, as above
$$ begin return conch.ask(k, f = 0, f, asker_); end $$;

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
    if me = '' then l.alert_until := ms; end if;
    l := conch.tell_freed(l);  -- an expiry notifies nobody, so the first client that notices it notifies the others
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
