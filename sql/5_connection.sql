-- A client's own connection: it registers, listens, and ends an earlier one.

create or replace function conch.microseconds(moment timestamptz) returns text language sql immutable as
$$ select (extract(epoch from moment) * 1000000)::bigint::text $$;

create or replace function conch.connect(client text, out version integer, out server_us bigint, out run text, out started text)
language plpgsql as $$
begin
  perform set_config('conch.client', client, false);
  version := conch.version();
  server_us := conch.now_us();
  perform conch.quiet(0, server_us);
  if not exists (select from conch.settings) then insert into conch.settings select true, a.longest from conch.alive a on conflict do nothing; end if;
  -- `run` changes when the connections of all clients have ended or the tables were emptied.
  select a.since || '.' || conch.microseconds(pg_postmaster_start_time()) into run from conch.alive a;
  select conch.microseconds(a.backend_start) into started from pg_stat_get_activity(pg_backend_pid()) a;
end $$;

-- The client's own key may be taken: by its earlier connection, which has not ended yet, by conch.hears in another session, or by a stranger. It does
-- not wait for them but takes another key. On the way it deletes the rows of clients that are gone.
create or replace function conch.hear(client text) returns bigint[] language plpgsql as $$
declare k bigint := conch.key_of(client); h conch.hearer;
begin
  for i in 1 .. 5 loop
    if pg_try_advisory_lock(k) then
      delete from conch.hearer x where x.client = hear.client;
      return array[1];
    end if;
    perform pg_sleep(0.001);
  end loop;
  loop
    k := ('x' || md5(random()::text || clock_timestamp()::text || client))::bit(64)::bigint;
    exit when pg_try_advisory_lock(k);
  end loop;
  for h in select * from conch.hearer x where x.client <> hear.client limit 100 for update skip locked loop
    if pg_try_advisory_lock_shared(h.key) then
      perform pg_advisory_unlock_shared(h.key);
      delete from conch.hearer x where x.client = h.client;
    end if;
  end loop;
  insert into conch.hearer values (client, k) on conflict on constraint hearer_pkey do update set key = excluded.key;
  return array[1];
end $$;

create or replace function conch.proves(client text) returns bigint[] language sql as
$$ select array[count(*)] from pg_listening_channels() c where c = conch.channel(client) $$;

-- Ends an earlier connection of the same client and waits for its end: whatever was sent on it has been executed by then, or never will be.
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
