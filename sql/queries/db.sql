-- What db.py itself needs: locks and the migration ledger.

-- name: lock_name
select pg_advisory_lock(hashtextextended('kbwiki:' || %(name)s, 0));

-- name: try_lock_name
select pg_try_advisory_lock(hashtextextended('kbwiki:' || %(name)s, 0));

-- name: unlock_name
select pg_advisory_unlock(hashtextextended('kbwiki:' || %(name)s, 0));

-- name: relax_commit
set local synchronous_commit = off;

-- name: fix_snapshot
set transaction isolation level repeatable read, read only;

-- name: lock_schema
select pg_advisory_xact_lock(hashtextextended('kbwiki:schema', 0));

-- name: read_schema_sha
-- Without the functions for models, as after a restore elsewhere, the schema is not current.
select sha256 from kb.migration
where name = 'schema'
  and (to_regnamespace('ai_shim') is not null
       or exists (select from pg_extension where extname = 'google_ml_integration'));

-- name: read_server
select current_setting('server_version_num')::int as version_number,
       current_setting('server_version') as version,
       lower('Ж') = 'ж' as folds_cyrillic,
       current_setting('server_encoding') as encoding,
       coalesce((select extversion from pg_extension where extname = 'vector'),
                (select default_version from pg_available_extensions where name = 'vector'), '') as pgvector;

-- name: create_schema
create schema if not exists kb;

-- name: create_vector
create extension if not exists vector;

-- name: create_ledger
create table if not exists kb.migration (
    name   text primary key,
    sha256 text not null,
    ran_at timestamptz not null default now()
);

-- name: list_migrations
select name, sha256 from kb.migration where name <> 'schema' order by name;

-- name: save_migration
insert into kb.migration (name, sha256) values (%(name)s, %(sha256)s)
on conflict (name) do update set sha256 = excluded.sha256;

-- name: count_sources
select count(*) from kb.source;

-- name: find_schemas
select to_regnamespace('kb') is not null as store, to_regnamespace('kb_before_restore') is not null as aside;

-- name: set_aside
alter schema kb rename to kb_before_restore;

-- name: bring_back
alter schema kb_before_restore rename to kb;

-- name: drop_store
drop schema if exists kb cascade;

-- name: drop_aside
drop schema if exists kb_before_restore cascade;

-- name: expire_schema
-- What the next look finds is not current: functions and the schemas for models, which no backup holds, are laid anew.
delete from kb.migration where name = 'schema';

-- name: read_ai
-- What stands under the names of the schemas for language models: null if nothing does.
select exists (select from pg_extension where extname = 'google_ml_integration') as is_native,
       (select extversion from pg_extension where extname = 'google_ml_integration') as native_version,
       (select coalesce(obj_description(oid, 'pg_namespace'), '') from pg_namespace where nspname = 'ai') as ai,
       (select coalesce(obj_description(oid, 'pg_namespace'), '') from pg_namespace where nspname = 'ai_shim') as ai_shim;

-- name: flush_statistics
select pg_stat_force_next_flush();

-- The tables of which a tenth changed, once 1,000 rows of one have. No waiting for a lock, and no giving back of
-- space at the end of a file, for which readers would have to wait.
-- name: find_changed_tables
select 'vacuum (analyze, skip_locked, truncate off) ' || string_agg(t.name, ', ' order by t.name)
from (
    select format('%I.%I', schemaname, relname) as name, max(n_mod_since_analyze) over () as most
    from pg_stat_user_tables
    where schemaname = 'kb' and n_mod_since_analyze >= 50 + n_live_tup / 10
      and pg_has_role((select relowner from pg_class where oid = relid), 'usage')
) t
where t.most >= 1000;
