-- Its result has one column more: whether a statement names both, or a source links to the other.
drop function if exists kb.found_evidence(int, int);
