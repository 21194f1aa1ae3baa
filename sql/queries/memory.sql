-- Memories, their edges, and what became of them.

-- name: lock_session
select pg_advisory_xact_lock(hashtextextended('kbwiki:session:' || %(session)s, 0));

-- name: find_session
-- The session of an agent and client that is not over: what it said last is less than this long ago.
select session from kb.memory
where agent = %(agent)s and client = %(client)s and said_at > clock_timestamp() - make_interval(mins => %(gap)s)
  and session like 'auto:%%'
order by said_at desc
limit 1;

-- name: find_memory_key
select id, text_key from kb.memory where agent = %(agent)s and key = %(key)s;

-- name: list_recalled
select m.id, m.text from kb.memory_recall r join kb.memory m on m.id = r.memory_id
where r.session = %(session)s and r.recalled_at > clock_timestamp() - make_interval(mins => %(minutes)s)
order by r.recalled_at desc
limit 50;

-- name: save_refusal
insert into kb.memory_refusal (agent, memory_id) values (%(agent)s, %(memory_id)s);

-- name: save_memory
-- A text that is there already counts once more; is_new tells which.
insert into kb.memory (owner, text_key, key, text, cleaned, lang, domain, topic, essence, agent, client, session, at,
                       lemmas, text_sha)
values (%(owner)s, %(text_key)s, %(key)s, %(text)s, %(cleaned)s, %(lang)s, %(domain)s, %(topic)s, %(essence)s::text[],
        %(agent)s, %(client)s, %(session)s, coalesce(%(at)s::timestamptz, clock_timestamp()), %(lemmas)s, %(text_sha)s)
on conflict (owner, text_key) do update
set n_said = kb.memory.n_said + 1, used_at = clock_timestamp(),
    key = case when kb.memory.agent = excluded.agent then coalesce(kb.memory.key, excluded.key) else kb.memory.key end
returning id, n_said = 1 as is_new;

-- name: find_previous
select id from kb.memory where session = %(session)s and agent = %(agent)s and owner in ('', %(owner)s) and id < %(id)s order by id desc limit 1;

-- name: list_beside
-- The memories said just before and after one in its session: their index holds its words.
(select o.id from kb.memory m join kb.memory o on o.session = m.session and o.agent = m.agent and o.owner = m.owner and o.id < m.id
 where m.id = %(id)s order by o.id desc limit 1)
union all
(select o.id from kb.memory m join kb.memory o on o.session = m.session and o.agent = m.agent and o.owner = m.owner and o.id > m.id
 where m.id = %(id)s order by o.id limit 1);

-- name: index_memories
select kb.index_memories(%(ids)s::bigint[]);

-- name: unindex_memory
select kb.unindex('memory', array[%(id)s::bigint]);

-- name: find_memories
select f.id, f.score, f.words, f.margin, m.text, m.domain, m.topic, m.essence, m.at, m.agent, m.superseded_by, m.lemmas
from kb.find_memories(%(question)s, %(vector)s, %(model)s, %(me)s, %(domain)s, %(topic)s, %(first_at)s::timestamptz,
                      %(last_at)s::timestamptz, %(archived)s, %(floor_words)s::real, %(floor_margin)s::real, %(n)s) f
join kb.memory m on m.id = f.id
order by f.score desc, f.id;

-- name: count_visible_memories
select count(*) from kb.memory where owner in ('', %(me)s);

-- name: count_recall
select kb.count_recall(%(ids)s::bigint[], %(session)s);

-- name: save_memory_edge
insert into kb.memory_edge (head_id, type, tail_id, concept_id, domain, weight)
select %(head)s, %(type)s, %(tail)s, %(concept)s, %(domain)s, %(weight)s
where %(tail)s::bigint is null or exists (select from kb.memory where id = %(tail)s)
on conflict (head_id, type, tail_id, concept_id, domain) do nothing;

-- name: restore_memory_edge
insert into kb.memory_edge (head_id, type, tail_id, weight)
select m.id, %(type)s, %(tail)s, %(weight)s from kb.memory m where m.id = %(head)s
on conflict (head_id, type, tail_id, concept_id, domain) do nothing;

-- name: list_essence_kin
select m.id from kb.memory m
where m.essence && %(essence)s::text[] and m.id <> %(id)s and m.owner in ('', %(owner)s)
order by m.id desc
limit %(n)s;

-- name: save_named_edges
-- Memories refer to the concepts whose names stand in their words; longer ones than 8 words are not looked for.
insert into kb.memory_edge (head_id, type, concept_id)
select distinct m.id, 'REFERENCES', a.concept_id
from kb.memory m
join kb.alias a on a.lemmas <> '' and ' ' || m.lemmas || ' ' like '%% ' || replace(replace(replace(a.lemmas, '\', '\\'), '%%', '\%%'), '_', '\_') || ' %%'
where (m.id = %(id)s or %(id)s is null) and a.concept_id > %(after)s
  and (length(a.lemmas) > 3 or a.lemmas ~ '[[:alpha:]][[:alpha:]]')
on conflict (head_id, type, tail_id, concept_id, domain) do nothing;

-- name: list_garland
select g.hit_id, g.path from kb.garland(%(hits)s::bigint[], %(me)s, %(max_steps)s) g;

-- name: list_memory_texts
select id, text from kb.memory where id = any (%(ids)s::bigint[]);

-- name: list_concept_titles
select id, title, slug from kb.concept where id = any (%(ids)s::bigint[]);

-- name: find_memory
select m.id, m.text, m.domain, m.topic, m.essence, m.agent, m.client, m.session, m.owner, m.key, m.at, m.said_at, m.used_at,
       m.n_said, m.n_uses, m.is_pinned, m.superseded_by, s.decay, s.importance, s.is_archived, s.half_life
from kb.memory m join kb.memory_state s on s.id = m.id
where m.id = %(id)s;

-- name: list_edges_of_memory
select e.type, true as forward, e.tail_id as memory_id, c.slug as concept, e.domain, e.weight
from kb.memory_edge e left join kb.concept c on c.id = e.concept_id
where e.head_id = %(id)s
union all
select e.type, false, e.head_id, null, null, e.weight from kb.memory_edge e where e.tail_id = %(id)s
order by 1, 2 desc, 3, 4, 5;

-- name: delete_memory
delete from kb.memory where id = %(id)s;

-- name: pin_memory
update kb.memory set is_pinned = %(is_pinned)s where id = %(id)s;

-- name: supersede_memory
update kb.memory set superseded_by = %(by)s where id = %(id)s;

-- name: restore_memory
update kb.memory set used_at = clock_timestamp() where id = %(id)s;

-- name: list_memories
select m.id, m.text, m.domain, m.topic, m.essence, m.agent, m.at, m.n_said, m.n_uses, m.is_pinned, m.superseded_by,
       s.decay, s.importance, s.is_archived
from kb.memory m join kb.memory_state s on s.id = m.id
where m.owner in ('', %(me)s) and (%(domain)s = '' or m.domain = %(domain)s) and (%(topic)s = '' or m.topic = %(topic)s)
  and (not %(archived)s or s.is_archived)
order by m.id;

-- name: read_memory_status
select count(*) as total, count(*) filter (where n.n > 0) as with_neighbors, coalesce(avg(n.n), 0)::float8 as avg_degree,
       count(*) filter (where s.is_archived) as archived, min(m.at) as oldest, max(m.at) as newest,
       coalesce(sum(m.n_said - 1), 0) + (select count(*) from kb.memory_refusal) as duplicates_refused
from kb.memory m
join kb.memory_state s on s.id = m.id
cross join lateral (
    select (select count(*) from kb.memory_edge e where e.head_id = m.id)
           + (select count(*) from kb.memory_edge e where e.tail_id = m.id and e.type <> 'SIMILAR_TO') as n
) n
where m.owner in ('', %(me)s);

-- name: count_memories_by
select case %(by)s when 'domain' then domain else agent end as name, count(*) as n
from kb.memory where owner in ('', %(me)s) group by 1 order by 1;

-- name: has_background
select not exists (
    select from kb.background b left join kb.vector v on v.model = %(model)s and v.text_sha = b.text_sha
    where v.text_sha is null);

-- name: list_background
select text_sha, text from kb.background order by id;

-- name: export_memories
select m.id, m.key, m.text, m.domain, m.topic, m.essence, m.agent, m.client, m.session, m.owner, m.at, m.said_at, m.used_at,
       m.n_said, m.n_uses, m.is_pinned, m.superseded_by,
       coalesce((select jsonb_agg(jsonb_build_object('type', e.type, 'to', e.tail_id, 'concept', c.key, 'domain', e.domain,
                                                     'weight', e.weight)
                                  order by e.type, e.tail_id, c.key collate "C", e.domain)
                 from kb.memory_edge e left join kb.concept c on c.id = e.concept_id where e.head_id = m.id), '[]') as edges
from kb.memory m
where (m.owner in ('', %(me)s) or %(me)s = '') and (%(id)s::bigint is null or m.id = %(id)s)
order by m.id;

-- name: import_memory
insert into kb.memory (id, owner, text_key, key, text, cleaned, lang, domain, topic, essence, agent, client, session, at,
                       said_at, used_at, n_said, n_uses, is_pinned, lemmas, text_sha)
overriding system value
values (coalesce(%(as_id)s, nextval(pg_get_serial_sequence('kb.memory', 'id'))),
        %(owner)s, %(text_key)s, %(key)s, %(text)s, %(cleaned)s, %(lang)s, %(domain)s, %(topic)s, %(essence)s::text[],
        %(agent)s, %(client)s, %(session)s, coalesce(%(at)s::timestamptz, clock_timestamp()),
        coalesce(%(said_at)s::timestamptz, clock_timestamp()), coalesce(%(used_at)s::timestamptz, clock_timestamp()),
        %(n_said)s, %(n_uses)s, %(is_pinned)s, %(lemmas)s, %(text_sha)s)
on conflict (owner, text_key) do update set n_said = greatest(kb.memory.n_said, excluded.n_said)
returning id, xmax = 0 as is_new;

-- name: find_concept_key
select id from kb.concept where key = %(key)s;

-- name: list_half_lives
select name, value from kb.setting where name = 'half_life' or name like 'half_life:%%' order by name;

-- name: has_memories
select exists (select from kb.memory);

-- name: read_vector
select coalesce(v::text, h::text) from kb.vector where model = %(model)s and text_sha = %(sha)s;

-- name: list_memory_keys
select id, key from kb.memory where key is not null;
