-- Who may ask over MCP, and what they changed.

-- Writer: server. password_hash is argon2's; token_sha the hash of a random token, which needs no slow hash.
create table kb.principal (
    id            bigint generated always as identity primary key,
    name          text        not null unique,
    role          text        not null check (role in ('reader', 'writer', 'admin')),
    password_hash text        not null,
    token_sha     text        unique,
    changed_at    timestamptz not null default clock_timestamp()
);

-- Writer: server. Every change by a tool; reply is given again to a retry with the same key.
create table kb.audit (
    id              bigint generated always as identity primary key,
    made_at         timestamptz not null default clock_timestamp(),
    principal       text        not null,
    role            text        not null,
    tool            text        not null,
    target          text        not null,
    arguments       jsonb       not null,
    before          jsonb,
    after           jsonb,
    reply           jsonb,
    idempotency_key text,
    undone_at       timestamptz,
    undone_by       text,
    unique (principal, tool, idempotency_key)
);
create index audit_made_at on kb.audit (made_at);
