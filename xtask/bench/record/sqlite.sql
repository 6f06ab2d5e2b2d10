-- Insert, index, group, join.
CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER, c TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
INSERT INTO t SELECT i, (i * 7919) % 10007, printf('row-%06d', i) FROM n;
CREATE INDEX b ON t(b);
CREATE TABLE g AS SELECT b, count(*) AS n, max(c) AS m FROM t GROUP BY b;
SELECT count(*), sum(length(m)) FROM g WHERE n > 19;
SELECT count(*) FROM t JOIN g ON t.b = g.b WHERE t.c LIKE '%99%' AND g.n > 10;
SELECT sum(a) FROM (SELECT a FROM t ORDER BY c DESC LIMIT 50000);
