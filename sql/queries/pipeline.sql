-- The stage loop: runs, failures, leases.

-- name: start_run
insert into kb.run (stage) values (%(stage)s) returning id;

-- name: end_run
update kb.run set ended_at = clock_timestamp(), n_done = %(n_done)s, n_failed = %(n_failed)s where id = %(id)s;

-- name: save_failure
insert into kb.attempt (stage, item, reason, hint) values (%(stage)s, %(item)s, %(reason)s, %(hint)s)
on conflict (stage, item) do update
set reason = excluded.reason, hint = excluded.hint, n_tries = kb.attempt.n_tries + 1, failed_at = clock_timestamp();

-- name: finish_item
with cleared as (delete from kb.attempt where stage = %(stage)s and item = %(item)s)
delete from kb.lease where stage = %(stage)s and item = %(item)s and owner = %(owner)s;

-- name: keep_failures
delete from kb.attempt where stage = %(stage)s and not (item = any (%(items)s::text[]));

-- name: claim_items
with mine as (
    insert into kb.lease as held (stage, item, owner, expires_at)
    select %(stage)s, item, %(owner)s, clock_timestamp() + make_interval(secs => %(lease_s)s)
    from unnest(%(items)s::text[]) as item
    order by item
    on conflict (stage, item) do update
        set owner = excluded.owner, expires_at = excluded.expires_at
        where held.expires_at < clock_timestamp() or held.owner = excluded.owner
    returning item
)
select item from mine;

-- name: release_all
delete from kb.lease where owner = %(owner)s;

-- name: count_leases
select count(*) from kb.lease
where stage = %(stage)s and owner <> %(owner)s and expires_at >= clock_timestamp()
  and item = any (%(items)s::text[]);

-- name: list_failures
select stage, item, reason, hint, n_tries, failed_at from kb.attempt order by stage, item;
