-- The second classifier: a language model, called from SQL through ai.generate. On AlloyDB that is the native
-- function, which answers at once; elsewhere the shim's, which answers NULL until a worker has asked.

create or replace function kb.prompt_version() returns text
language sql stable
set search_path = pg_catalog
as $$
    select left(kb.sha(coalesce((select value from kb.setting where name = 'classify_prompt'), ''),
                       (select string_agg(kb.sha(code, definition, label_en), '' order by ordinal) from kb.edge_type)), 8)
$$;

-- The only place that calls a model.
create or replace function kb.llm(prompts text[], model_id varchar(100) default null) returns text[]
language plpgsql
set search_path = pg_catalog
as $$
begin
    return ai.generate(prompts => prompts,
                       model_id => coalesce(model_id, (select value from kb.setting where name = 'model_id'))::varchar(100));
end
$$;

-- Text between two lines that it cannot itself contain, so that it is read as data.
create or replace function kb.fenced(body text) returns text
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select '=== data ' || left(kb.sha(body), 12) || E' ===\n' || body || E'\n=== end ' || left(kb.sha(body), 12) || ' ==='
$$;

-- The answers that are allowed, both directions of each directed type, in an order that a seed decides.
create or replace function kb.answer_options(seed text) returns text
language sql stable
set search_path = pg_catalog
as $$
    select string_agg(o.code || ' = ' || o.reading, E'\n' order by kb.sha(seed, o.code))
    from (
        select t.code || case when t.is_symmetric then '' else '1' end as code,
               'A ' || t.label_en || ' B: ' || t.definition as reading
        from kb.edge_type t
        union all
        select t.code || '2', 'B ' || t.label_en || ' A' from kb.edge_type t where not t.is_symmetric
        union all
        select 'N', 'none: the sentences deny it, or say nothing that links A and B'
    ) o
$$;

-- One line of an answer as an edge: what it says of the ends that were called A and B. No row: no known code.
create or replace function kb.answer_meaning(code text, a_id bigint, b_id bigint)
returns table (type text, head_id bigint, is_symmetric boolean)
language sql stable
set search_path = pg_catalog
as $$
    select t.name, case when right(answer_meaning.code, 1) = '2' then b_id else a_id end, t.is_symmetric
    from kb.edge_type t
    where case when t.is_symmetric then answer_meaning.code = t.code
               else answer_meaning.code in (t.code || '1', t.code || '2') end
    union all
    select null, null, true where answer_meaning.code = 'N'
$$;

-- Text on one line, without what could close the fence, cut to a length.
create or replace function kb.one_line(body text, n int) returns text
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select left(regexp_replace(replace(body, '===', '= ='), '\s+', ' ', 'g'), n)
$$;

-- A question on one edge: the ends with their kinds and up to three sentences, all cut to a length.
create or replace function kb.question_on(edge_id bigint, a_id bigint, b_id bigint) returns text
language sql stable
set search_path = pg_catalog
as $$
    select format('A = %s (%s); B = %s (%s)', kb.one_line(a.title, 120), a.kind, kb.one_line(b.title, 120), b.kind)
        || coalesce((select string_agg(E'\n- ' || case when v.kind = 'link' then
                                         '(in a source on ' || kb.one_line(f.title, 120) || ') ' else '' end
                                       || kb.one_line(c.text, 300), '' order by v.ordinal)
                     from kb.edge_evidence v
                     join kb.claim c on c.id = v.claim_id
                     join kb.concept f on f.id = v.first_id
                     where v.edge_id = question_on.edge_id and v.ordinal <= 3), '')
    from kb.concept a, kb.concept b
    where a.id = a_id and b.id = b_id
$$;

-- Make batches of the rows of pg_temp.wanted (edge_id, a_id, b_id, place): frozen, so that a pass that runs again
-- asks the same prompts. What decides order and seed is the content, so that a store built anew asks them too.
create or replace function kb.pack(which text, model text, per_prompt int) returns int
language plpgsql
set search_path = pg_catalog
as $$
declare
    version text := kb.prompt_version();
    template text := (select value from kb.setting where name = 'classify_prompt');
    pack record;
    seed text;
    new_id bigint;
    n int := 0;
begin
    if template is null then
        raise exception 'classify_prompt: the setting is not there' using errcode = 'KB001',
            hint = 'Run `kbwiki classify-edges` once; it saves its prompt.';
    end if;
    for pack in
        select string_agg(w.place, ' ' order by w.place) as places, array_agg(w.edge_id order by w.place) as edges,
               array_agg(w.a_id order by w.place) as a_ids, array_agg(w.b_id order by w.place) as b_ids
        from (select x.*, (row_number() over (order by x.place) - 1) / per_prompt as at from pg_temp.wanted x) w
        group by w.at
        order by w.at
    loop
        seed := kb.sha(which, pack.places);
        insert into kb.batch (pass, seed, prompt, prompt_version, model_id)
        select which, seed, replace(replace(template, '$options', kb.answer_options(seed)), '$pairs', kb.fenced(
                   (select string_agg(i.line || '. ' || kb.question_on(i.edge_id, i.a_id, i.b_id), E'\n' order by i.line)
                    from unnest(pack.edges, pack.a_ids, pack.b_ids) with ordinality as i (edge_id, a_id, b_id, line)))),
               version, coalesce(model, '')
        returning id into new_id;
        insert into kb.batch_item (batch_id, line, edge_id, a_id, b_id, evidence_sha)
        select new_id, i.line, i.edge_id, i.a_id, i.b_id, e.evidence_sha
        from unnest(pack.edges, pack.a_ids, pack.b_ids) with ordinality as i (edge_id, a_id, b_id, line)
        join kb.edge e on e.id = i.edge_id;
        n := n + 1;
    end loop;
    if n > 10 then  -- tables that were empty just now are read as a whole, edge by edge
        analyze kb.batch, kb.batch_item;
    end if;
    return n;
end
$$;

-- What was asked of an edge as it is now, in either order of its ends.
create or replace view kb.asked as
select i.edge_id, i.batch_id, i.line, i.a_id, i.b_id, i.answer, b.pass, b.status, b.model_id, b.prompt_version, b.response
from kb.batch_item i
join kb.batch b on b.id = i.batch_id
join kb.edge e on e.id = i.edge_id and e.evidence_sha = i.evidence_sha
where b.status <> 'dropped' and b.prompt_version = (select kb.prompt_version());

-- How often a model's answer on an edge, as the edge and the question are now, could not be used. At the most of
-- these it is left alone until one of them changes.
create or replace function kb.n_unusable(edge_id bigint, model text) returns bigint
language sql stable
set search_path = pg_catalog
as $$
    select count(*)
    from kb.batch_item i
    join kb.batch b on b.id = i.batch_id
    join kb.edge e on e.id = i.edge_id and e.evidence_sha = i.evidence_sha
    where i.edge_id = n_unusable.edge_id and i.answer = '' and b.response is not null
      and b.prompt_version = kb.prompt_version() and b.model_id = coalesce(n_unusable.model, '')
$$;

create or replace function kb.max_unusable() returns int
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select 4
$$;

-- Where an edge stands in the order of questions: by its content, not by its id. Failures before count, so that
-- what failed is asked in other words.
create or replace function kb.place_of(edge_id bigint, pass text) returns text
language sql stable
set search_path = pg_catalog
as $$
    select kb.sha(pass, least(h.key collate "C", t.key collate "C"), greatest(h.key collate "C", t.key collate "C"),
                  (select count(*) from kb.batch_item i join kb.batch b on b.id = i.batch_id
                   where i.edge_id = e.id and b.status = 'dropped')::text)
    from kb.edge e
    join kb.concept h on h.id = e.head_id
    join kb.concept t on t.id = e.tail_id
    where e.id = place_of.edge_id
$$;

-- An answer without the marks that models put around its lines: bold type, code, tables, brackets, JSON; those on
-- one line, parted by commas, on lines of their own.
create or replace function kb.answer_lines(response text) returns text
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select regexp_replace(translate(response, E'：\t|\u00A0*`[]{}"''\r\uFEFF', ':   '), '[,;] *(?=\d+ *[:.)=-])| +(?=\d+:)', E'\n', 'g')
$$;

-- Put down the answers of a batch, line by line. A line with a code that is not known, or one that stands twice,
-- spoils its edge only; an answer without any usable line fails the batch.
create or replace function kb.read_answers(batch_id bigint, response text) returns void
language plpgsql
set search_path = pg_catalog
as $$
declare
    n_read int;
begin
    update kb.batch_item i
    set answer = l.code
    from (
        select (m.line[1])::numeric as line, min(upper(m.line[2])) as code
        from regexp_matches(
            kb.answer_lines(response),
            '^[ -]*(\d{1,6}) *[ :.)=-] *([A-Za-z][12]?)[ .]*(?:[(—–:-] ?.*)?$', 'gn') as m (line)
        group by 1
        having count(*) = 1
    ) l
    where i.batch_id = read_answers.batch_id and i.line = l.line
      and exists (select from kb.answer_meaning(l.code, i.a_id, i.b_id));
    get diagnostics n_read = row_count;
    update kb.batch b
    set response = read_answers.response, done_at = clock_timestamp(),
        status = case when n_read > 0 then 'done' else 'failed' end,
        reason = case when n_read > 0 then '' when btrim(read_answers.response) = '' then 'the answer is empty'
                      else 'no line of the answer could be read: ' || kb.one_line(read_answers.response, 120) end
    where b.id = read_answers.batch_id;
end
$$;

-- Whether the kinds of the ends fit a type; an idea ("concept") fits everywhere.
create or replace function kb.kinds_fit(type_name text, head bigint, one bigint, other bigint) returns boolean
language sql stable
set search_path = pg_catalog
as $$
    select (t.head_kinds is null or h.kind = 'concept' or h.kind = any (t.head_kinds))
       and (t.tail_kinds is null or l.kind = 'concept' or l.kind = any (t.tail_kinds))
    from kb.edge_type t
    join kb.concept h on h.id = head
    join kb.concept l on l.id = case when head = one then other else one end
    where t.name = type_name
$$;

-- Give a verdict on every edge of which enough is answered. Both orders agree: accepted. They do not: the rules'
-- vote decides, else the kinds of the ends, else the edge is related_to and waits for a person's look. Kinds say
-- nothing of a denial, so between one and a type they have no vote.
create or replace function kb.settle() returns int
language plpgsql
set search_path = pg_catalog
as $$
declare
    n_settled int;
begin
    with answered as (
        select e.id, first.answer as first_line, first.a_id, f.type as first_type, f.head_id as first_head,
               f.is_symmetric, second.answer as second_line, s.type as second_type, s.head_id as second_head,
               first.model_id, first.prompt_version, e.head_id, e.tail_id, e.rule_type, e.rule_head_id, e.rule
        from kb.edge e
        cross join lateral (
            select * from kb.asked a where a.edge_id = e.id and a.answer <> '' order by a.batch_id limit 1
        ) first
        cross join lateral kb.answer_meaning(first.answer, first.a_id, first.b_id) f
        left join lateral (
            select * from kb.asked a
            where a.edge_id = e.id and a.answer <> '' and a.a_id = first.b_id order by a.batch_id limit 1
        ) second on true
        left join lateral kb.answer_meaning(second.answer, second.a_id, second.b_id) s on second.answer is not null
        where e.status = 'pending' and (f.is_symmetric or second.answer is not null)
    ),
    judged as (
        select a.*,
               a.is_symmetric or ((a.first_type, a.first_head) is not distinct from (a.second_type, a.second_head))
                   as agrees,
               case when a.rule_type = a.first_type and (a.is_symmetric or a.rule_head_id = a.first_head) then 1
                    when a.rule_type = a.second_type and (second_is_symmetric or a.rule_head_id = a.second_head) then 2
                    when a.rule = 'denied' and a.first_type is null then 1
                    when a.rule = 'denied' and a.second_type is null then 2
               end as voted,
               case when fits_first and not fits_second then 1 when fits_second and not fits_first then 2 end as fitting
        from answered a
        cross join lateral (
            select coalesce((select t.is_symmetric from kb.edge_type t where t.name = a.second_type), true)
                       as second_is_symmetric,
                   kb.kinds_fit(a.first_type, a.first_head, a.head_id, a.tail_id) as fits_first,
                   kb.kinds_fit(a.second_type, coalesce(a.second_head, a.a_id), a.head_id, a.tail_id) as fits_second
        ) k
    ),
    chosen as (
        select j.*, case when j.agrees then 1 else coalesce(j.voted, j.fitting) end as choice from judged j
    ),
    verdict as (
        select c.id, case c.choice when 1 then c.first_type when 2 then c.second_type else 'related_to' end as type,
               case c.choice when 1 then c.first_head when 2 then c.second_head end as wanted_head,
               case when c.agrees and c.voted = 1 then 0.95 when c.agrees and not c.is_symmetric then 0.9
                    when c.agrees then 0.8 when c.voted is not null then 0.6 when c.fitting is not null then 0.5
                    else 0.2 end as confidence,
               c.choice is null as needs_review, c.first_line, coalesce(c.second_line, '') as second_line, c.model_id,
               c.prompt_version, c.head_id, c.tail_id
        from chosen c
    )
    update kb.edge e
    set type = v.type, status = case when v.type is null then 'rejected' else 'typed' end, method = 'llm',
        confidence = v.confidence, needs_review = v.needs_review, answer = v.first_line,
        mirror_answer = v.second_line, model = v.model_id, prompt_version = v.prompt_version,
        shown_ordinal = case when v.type = e.rule_type then e.shown_ordinal else 1 end, typed_sha = kb.sha('model', e.evidence_sha), head_id = p.head_id,
        tail_id = case when p.head_id = v.head_id then v.tail_id else v.head_id end
    from verdict v
    cross join lateral (
        select coalesce(kb.head_of(coalesce(v.type, 'related_to'), coalesce(v.wanted_head, v.head_id), v.head_id, v.tail_id),
                        v.head_id) as head_id
    ) p
    where e.id = v.id;
    get diagnostics n_settled = row_count;
    return n_settled;
end
$$;

-- Make the batches that are due: first questions (at most max_new edges; null: all), single ones for lines that
-- could not be read, and, when none of those is open, the mirrored ones for directed answers. Of packs without any
-- usable line only one is asked singly until the model has shown that it can answer: one bad edge must not spoil
-- twenty, and a model that never answers must not be asked about each.
create or replace function kb.pack_due(asked_model text, max_new int) returns int
language plpgsql
set search_path = pg_catalog
as $$
declare
    n int;
    can boolean := exists (select from kb.batch b where b.status = 'done' and b.model_id = coalesce(asked_model, '')
                           and b.prompt_version = kb.prompt_version());
    tried bigint := (select min(b.id) from kb.batch b where b.status = 'failed' and b.pass <> 'single');
begin
    create temporary table wanted (edge_id bigint, a_id bigint, b_id bigint, place text) on commit drop;

    insert into pg_temp.wanted
    select o.id, case when p.is_plain then k.head_id else k.tail_id end,
           case when p.is_plain then k.tail_id else k.head_id end, p.place
    from (select x.id, x.head_id, x.tail_id from kb.edge x
          where x.status = 'pending' and not exists (select from kb.asked a where a.edge_id = x.id)
            and kb.n_unusable(x.id, asked_model) < kb.max_unusable()) o
    join kb.concept l on l.id = o.head_id
    join kb.concept g on g.id = o.tail_id
    cross join lateral (select case when l.key collate "C" < g.key collate "C" then l.id else g.id end as head_id,
                               case when l.key collate "C" < g.key collate "C" then g.id else l.id end as tail_id) k
    cross join lateral (select x.place, x.place < '8' as is_plain from kb.place_of(o.id, 'first') x (place)) p
    order by p.place
    limit max_new;
    n := kb.pack('first', asked_model, 20);
    truncate pg_temp.wanted;

    insert into pg_temp.wanted
    select distinct a.edge_id, a.a_id, a.b_id, kb.place_of(a.edge_id, 'single') || a.pass
    from kb.asked a
    join kb.edge e on e.id = a.edge_id and e.status = 'pending'
    where a.answer = '' and a.pass <> 'single' and a.response is not null
      and (a.status = 'done' or a.status = 'failed' and (can or a.batch_id = tried))
      and not exists (select from kb.asked o
                      where o.edge_id = a.edge_id and o.a_id = a.a_id and (o.pass = 'single' or o.answer <> ''))
      and kb.n_unusable(a.edge_id, asked_model) < kb.max_unusable();
    n := n + kb.pack('single', asked_model, 1);
    truncate pg_temp.wanted;

    if n = 0 and not exists (select from kb.batch b where b.status = 'open' and b.pass <> 'mirror') then
        insert into pg_temp.wanted
        select distinct a.edge_id, a.b_id, a.a_id, kb.place_of(a.edge_id, 'mirror')
        from kb.asked a
        join kb.edge e on e.id = a.edge_id and e.status = 'pending'
        where a.answer <> ''
          and not exists (select from kb.asked o where o.edge_id = a.edge_id and o.a_id = a.b_id)
          and kb.n_unusable(a.edge_id, asked_model) < kb.max_unusable();
        n := n + kb.pack('mirror', asked_model, 20);
    end if;
    drop table pg_temp.wanted;
    return n;
end
$$;

-- Ask one batch where the server itself can, and read the answer; a caller makes each a transaction of its own, so
-- that no pack is paid twice and none waits for another. An error is the batch's; returns why it failed, or null.
create or replace function kb.ask_batch(batch_id bigint, model_id varchar(100) default null) returns text
language plpgsql
set search_path = pg_catalog
as $$
declare
    asked text := (select b.prompt from kb.batch b where b.id = batch_id and b.status = 'open');
    answers text[];
begin
    if asked is null then
        return null;
    end if;
    begin
        answers := kb.llm(array[asked], model_id);
    exception when others then
        update kb.batch b set status = 'failed', reason = kb.one_line(sqlerrm, 200), done_at = clock_timestamp()
        where b.id = batch_id;
        return sqlerrm;
    end;
    perform kb.read_answers(batch_id, coalesce(answers[1], ''));
    return null;
end
$$;

-- Both classifiers: the rules on all that changed and, with_model, a model on what they are not sure of. Answers
-- that are not there yet (the shim's NULL) are taken up by the next call. retry: ask again what failed before.
-- ask: false leaves the batches to kb.ask_batch. n_open: prompts that wait for an answer; n_failed: prompts whose
-- answer could not be used.
create or replace function kb.classify_pending(
    with_model boolean default false, model_id varchar(100) default null, retry boolean default false,
    max_new int default null, ask boolean default true
) returns table (n_typed bigint, n_rejected bigint, n_settled int, n_pending bigint, n_open bigint, n_failed bigint)
language plpgsql
set search_path = pg_catalog
as $$
declare
    open_ids bigint[];
    prompts text[];
    answers text[];
    n_new int;
    n_read int;
    may_take int := max_new;
begin
    select r.n_typed, r.n_rejected into n_typed, n_rejected from kb.classify_by_rules(with_model) r;
    n_settled := 0;
    if with_model then
        -- What an edge was asked before its evidence changed, or in other words, is of no use any more.
        update kb.batch b set status = 'dropped'
        where b.status in ('open', 'failed')
          and not exists (select from kb.asked a join kb.edge e on e.id = a.edge_id
                          where a.batch_id = b.id and e.status = 'pending');
        update kb.batch b set status = 'dropped'
        where retry and b.status = 'failed'
          and exists (select from kb.batch_item i join kb.edge e on e.id = i.edge_id and e.status = 'pending'
                      where i.batch_id = b.id
                        and kb.n_unusable(i.edge_id, classify_pending.model_id) < kb.max_unusable());
        update kb.batch b set model_id = coalesce(classify_pending.model_id, '')
        where b.status = 'open' and b.model_id <> coalesce(classify_pending.model_id, '');
        loop
            n_settled := n_settled + kb.settle();
            n_new := kb.pack_due(model_id, may_take);
            may_take := 0;
            exit when not ask;
            select array_agg(b.id order by b.id), array_agg(b.prompt order by b.id) into open_ids, prompts
            from kb.batch b where b.status = 'open';
            exit when open_ids is null;
            answers := kb.llm(prompts, model_id);
            select count(*) filter (where x.done) into n_read
            from (
                select a.answer is not null as done, case when a.answer is not null then kb.read_answers(a.id, a.answer) end
                from unnest(open_ids, answers) as a (id, answer)
            ) x;
            exit when n_read = 0;
        end loop;
        n_settled := n_settled + kb.settle();
    end if;
    select count(*) filter (where e.status = 'pending') into n_pending from kb.edge e;
    select count(*) filter (where b.status = 'open'), count(*) filter (where b.status = 'failed')
    into n_open, n_failed from kb.batch b;
    return next;
end
$$;
