-- A pool of few vectors is read through without a look at the others.
create index vector_pool on kb.vector (model, pool);
