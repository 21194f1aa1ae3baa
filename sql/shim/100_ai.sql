-- Schema ai for a Postgres without google_ml_integration: the signatures of AlloyDB's text functions over a queue.
-- A call returns the stored answer to its prompt, or writes the request down and returns NULL; a worker outside
-- the database asks the model. No key ever comes here.

create schema if not exists ai;
comment on schema ai is 'kbwiki shim';
create schema if not exists ai_shim;
comment on schema ai_shim is 'kbwiki shim';

-- One row per distinct prompt; key is the hash of what is asked. What a call cost is in kb.call, by prompt_sha;
-- who asks holds a lease in kb.lease.
create table if not exists ai_shim.request (
    key         text        primary key,
    op          text        not null check (op in ('generate', 'if', 'rank')),
    model_id    text        not null,
    prompt      text        not null,
    prompt_sha  text        not null,
    status      text        not null default 'pending' check (status in ('pending', 'done', 'failed')),
    response    text,
    error       text        not null default '',
    attempts    int         not null default 0,
    created_at  timestamptz not null default clock_timestamp(),
    done_at     timestamptz
);
create index if not exists request_pending on ai_shim.request (created_at) where status = 'pending';

create or replace view ai_shim.failed as
select key, op, model_id, prompt_sha, error, attempts, done_at from ai_shim.request where status = 'failed';

-- The answer to a prompt, NULL while there is none; then it waits in the queue. `set kb.ai_on_miss = 'error'`
-- raises instead of returning NULL.
create or replace function ai_shim.lookup(op text, model_id text, prompt text) returns text
language plpgsql volatile
set search_path = pg_catalog
as $$
declare
    wanted text;
    found ai_shim.request;
begin
    if prompt is null then
        return null;
    end if;
    wanted := encode(sha256(convert_to(op || E'\x1f' || coalesce(model_id, '') || E'\x1f' || prompt, 'UTF8')), 'hex');
    select r.* into found from ai_shim.request r where r.key = wanted;
    if found.status = 'done' then
        return found.response;
    end if;
    if found.key is null then
        insert into ai_shim.request (key, op, model_id, prompt, prompt_sha)
        values (wanted, op, coalesce(model_id, ''), prompt,
                encode(sha256(convert_to(prompt, 'UTF8')), 'hex'))
        on conflict (key) do nothing;
    end if;
    if current_setting('kb.ai_on_miss', true) = 'error' then
        raise exception 'ai.%: the answer is not there yet', op using errcode = 'KB002',
            hint = 'Run `kbwiki classify-edges --batch`, and call it again.';
    end if;
    return null;
end
$$;

create or replace function ai_shim.as_boolean(answer text) returns boolean
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select case when answer is not null then coalesce(answer ~* '^\W*(true|yes)\M', false) end
$$;

create or replace function ai_shim.as_real(answer text) returns real
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select substring(answer from '-?\d{1,9}(?:\.\d{1,9})?')::real
$$;

-- A cursor of (input, output) over what another one holds.
create or replace function ai_shim.over(op text, prompt text, input_cursor refcursor, model_id text) returns refcursor
language plpgsql volatile
set search_path = pg_catalog
as $$
declare
    input text;
    inputs text[] := '{}';
    outputs text[] := '{}';
    result refcursor;
begin
    loop
        fetch input_cursor into input;
        exit when not found;
        inputs := inputs || input;
        outputs := outputs || ai_shim.lookup(op, model_id, prompt || E'\n' || input);
    end loop;
    if op = 'if' then
        open result for
            select i.input, ai_shim.as_boolean(i.output) as output from unnest(inputs, outputs) as i (input, output);
    elsif op = 'rank' then
        open result for
            select i.input, ai_shim.as_real(i.output) as output from unnest(inputs, outputs) as i (input, output);
    else
        open result for select i.input, i.output from unnest(inputs, outputs) as i (input, output);
    end if;
    return result;
end
$$;

create or replace function ai.generate(prompt text, model_id varchar(100) default null) returns text
language sql volatile
set search_path = pg_catalog
as $$
    select ai_shim.lookup('generate', model_id, prompt)
$$;

create or replace function ai.generate(
    prompts text[], batch_size integer default null, model_id varchar(100) default null
) returns text[]
language sql volatile
set search_path = pg_catalog
as $$
    select array_agg(ai_shim.lookup('generate', model_id, p.prompt) order by p.at)
    from unnest(prompts) with ordinality as p (prompt, at)
$$;

create or replace function ai.generate(
    prompt text, input_cursor refcursor, batch_size integer default null, model_id varchar(100) default null
) returns refcursor
language sql volatile
set search_path = pg_catalog
as $$
    select ai_shim.over('generate', prompt, input_cursor, model_id)
$$;

create or replace function ai.if(prompt text, model_id varchar(100) default null) returns boolean
language sql volatile
set search_path = pg_catalog
as $$
    select ai_shim.as_boolean(ai_shim.lookup('if', model_id, prompt))
$$;

create or replace function ai.if(
    prompts text[], batch_size integer default null, model_id varchar(100) default null
) returns boolean[]
language sql volatile
set search_path = pg_catalog
as $$
    select array_agg(ai_shim.as_boolean(ai_shim.lookup('if', model_id, p.prompt)) order by p.at)
    from unnest(prompts) with ordinality as p (prompt, at)
$$;

create or replace function ai.if(
    prompt text, input_cursor refcursor, batch_size integer default null, model_id varchar(100) default null
) returns refcursor
language sql volatile
set search_path = pg_catalog
as $$
    select ai_shim.over('if', prompt, input_cursor, model_id)
$$;

create or replace function ai.rank(prompt text, model_id varchar(100) default null) returns real
language sql volatile
set search_path = pg_catalog
as $$
    select ai_shim.as_real(ai_shim.lookup('rank', model_id, prompt))
$$;

create or replace function ai.rank(
    prompts text[], batch_size integer default null, model_id varchar(100) default null
) returns real[]
language sql volatile
set search_path = pg_catalog
as $$
    select array_agg(ai_shim.as_real(ai_shim.lookup('rank', model_id, p.prompt)) order by p.at)
    from unnest(prompts) with ordinality as p (prompt, at)
$$;

create or replace function ai.rank(
    prompt text, input_cursor refcursor, batch_size integer default null, model_id varchar(100) default null
) returns refcursor
language sql volatile
set search_path = pg_catalog
as $$
    select ai_shim.over('rank', prompt, input_cursor, model_id)
$$;

-- Whoever may only read must not reach a function that can spend money.
revoke all on all functions in schema ai, ai_shim from public;
revoke all on schema ai, ai_shim from public;
