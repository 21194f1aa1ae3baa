-- What agents learn: memories, the edges between them and to concepts, and who recalled what.

-- Writer: memory. owner is '' for a shared memory, else the agent that alone finds it; text_key is the hash of
-- the canonical text, so that a text said twice is one memory.
create table kb.memory (
    id            bigint generated always as identity primary key,
    owner         text        not null default '',
    text_key      text        not null,
    key           text,
    text          text        not null,
    cleaned       text        not null,
    lang          text        not null,
    domain        text        not null default '',
    topic         text        not null default '',
    essence       text[]      not null default '{}',
    agent         text        not null,
    client        text        not null default '',
    session       text        not null,
    at            timestamptz not null,
    said_at       timestamptz not null default clock_timestamp(),
    used_at       timestamptz not null default clock_timestamp(),
    n_said        int         not null default 1,
    n_uses        int         not null default 0,
    is_pinned     boolean     not null default false,
    superseded_by bigint      references kb.memory on delete set null,
    lemmas        text        not null default '',
    text_sha      text        not null,
    unique (owner, text_key)
);
create unique index memory_key on kb.memory (agent, key);
create index memory_session on kb.memory (session, id);
create index memory_agent on kb.memory (agent, client, said_at);
create index memory_essence on kb.memory using gin (essence);
create index memory_domain on kb.memory (domain);
create index memory_text_sha on kb.memory (text_sha);
create index memory_superseded on kb.memory (superseded_by);

-- Writer: memory. The tail is another memory, a concept of the wiki or a domain.
create table kb.memory_edge (
    head_id    bigint      not null references kb.memory on delete cascade,
    type       text        not null
               check (type in ('SIMILAR_TO', 'CAUSED_BY', 'FOLLOWED_BY', 'BELONGS_TO', 'REFERENCES')),
    tail_id    bigint      references kb.memory on delete cascade,
    concept_id bigint      references kb.concept on delete cascade,
    domain     text,
    weight     real        not null default 1,
    made_at    timestamptz not null default clock_timestamp(),
    check (num_nonnulls(tail_id, concept_id, domain) = 1),
    check (head_id is distinct from tail_id),
    unique nulls not distinct (head_id, type, tail_id, concept_id, domain)
);
create index memory_edge_tail on kb.memory_edge (tail_id);
create index memory_edge_concept on kb.memory_edge (concept_id);

-- Writer: memory. What a session recalled lately: an echo of it is no news.
create table kb.memory_recall (
    session     text        not null,
    memory_id   bigint      not null references kb.memory on delete cascade,
    recalled_at timestamptz not null default clock_timestamp(),
    primary key (session, memory_id)
);
create index memory_recall_memory on kb.memory_recall (memory_id);

-- Writer: memory. What was not kept, and why: an echo of a memory.
create table kb.memory_refusal (
    agent      text        not null,
    memory_id  bigint      references kb.memory on delete set null,
    refused_at timestamptz not null default clock_timestamp()
);
create index memory_refusal_memory on kb.memory_refusal (memory_id);

-- Writer: seed. Sentences about nothing in particular: what stands no closer to a question than these does not fit it.
create table kb.background (
    id       int  primary key,
    text     text not null,
    text_sha text not null
);
