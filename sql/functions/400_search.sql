-- Search: BM25 over the lexemes of each chunk's language, cosine over vectors, and their gated sum.

-- The lexemes of a question as each language reads it.
create or replace function kb.question_lexemes(question text) returns table (lang text, lexeme text)
language sql immutable parallel safe
set search_path = pg_catalog
as $$
    select l.lang, x.lexeme
    from (values ('en'), ('ru')) as l (lang), kb.lexemes(l.lang, question) x
$$;

-- BM25 (k1 1.2, b 0.75) as a share of the best that the question could reach if every word were matched;
-- a word that the corpus lacks counts in full. Robertson and Zaragoza, "The Probabilistic Relevance
-- Framework: BM25 and Beyond" (2009).
create or replace function kb.search_words(question text, max_hits int) returns table (chunk_id bigint, score real)
language sql stable
set search_path = pg_catalog
as $$
    with size as (
        select lang, count(*)::real as n, greatest(avg(n_lexemes), 1)::real as avg_length from kb.chunk group by lang
    ),
    word as (
        select q.lang, q.lexeme, s.n, s.avg_length,
               (select count(*) from kb.posting p join kb.chunk c on c.id = p.chunk_id
                where p.lexeme = q.lexeme and c.lang = q.lang) as df
        from kb.question_lexemes(question) q join size s on s.lang = q.lang
    ),
    weighed as (
        select lang, lexeme, avg_length, ln(1 + (n - df + 0.5) / (df + 0.5)) as idf from word
    ),
    ideal as (
        select lang, sum(idf) * 2.2 as best from weighed group by lang
    )
    select p.chunk_id,
           (sum(w.idf * p.tf * 2.2 / (p.tf + 1.2 * (0.25 + 0.75 * c.n_lexemes / w.avg_length))) / max(i.best))::real
    from weighed w
    join kb.posting p on p.lexeme = w.lexeme
    join kb.chunk c on c.id = p.chunk_id and c.lang = w.lang
    join ideal i on i.lang = w.lang
    group by p.chunk_id
    order by 2 desc, p.chunk_id
    limit max_hits
$$;

-- Cosine of each chunk, centred on the mean of all and scaled so that the best is 1.
create or replace function kb.search_vectors(question_vector text, model_name text, max_hits int)
returns table (chunk_id bigint, score real)
language sql stable
set search_path = pg_catalog, public
as $$
    with near as (
        select c.id as chunk_id,
               case when v.v is not null then 1 - (v.v <=> question_vector::vector)
                    else 1 - (v.h <=> question_vector::halfvec) end as cosine
        from kb.chunk c
        join kb.vector v on v.model = model_name and v.text_sha = c.text_sha
    ),
    spread as (select avg(cosine) as mean, max(cosine) as best from near)
    select n.chunk_id, ((n.cosine - s.mean) / greatest(s.best - s.mean, 1e-6))::real
    from near n, spread s
    order by 2 desc, n.chunk_id
    limit max_hits
$$;

-- Words weigh twice as much as they cover of the question; vectors decide where words say little.
create or replace function kb.search_chunks(question text, question_vector text, model_name text, max_hits int)
returns table (chunk_id bigint, words real, vectors real, score real)
language sql stable
set search_path = pg_catalog
as $$
    select coalesce(w.chunk_id, v.chunk_id), coalesce(w.score, 0)::real, coalesce(v.score, 0)::real,
           ((2 * coalesce(w.score, 0) + greatest(coalesce(v.score, 0), 0)) / 3)::real
    from kb.search_words(question, 200) w
    full join (
        select * from kb.search_vectors(question_vector, model_name, 200) where question_vector is not null
    ) v on v.chunk_id = w.chunk_id
    order by 4 desc, 1
    limit max_hits
$$;
