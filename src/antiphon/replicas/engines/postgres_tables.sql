-- The tables of PostgresCluster; "~" stands for what their names begin with.
--
-- Messages need not survive a crash of the database: an "unlogged" table is emptied by one. Who is a replica must: what
-- is published just afterwards would reach nobody.
SELECT pg_advisory_xact_lock(hashtext('~'));
CREATE TABLE IF NOT EXISTS ~records (key text PRIMARY KEY, value bytea NOT NULL, until timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS ~events (
    stream text NOT NULL, number bigint NOT NULL, data bytea NOT NULL, until timestamptz NOT NULL,
    PRIMARY KEY (stream, number));
CREATE TABLE IF NOT EXISTS ~replicas (replica text PRIMARY KEY, until timestamptz NOT NULL);
CREATE UNLOGGED TABLE IF NOT EXISTS ~messages (
    id bigint GENERATED ALWAYS AS IDENTITY, receiver text NOT NULL, sender text NOT NULL, topic text NOT NULL,
    data bytea NOT NULL, until timestamptz NOT NULL, PRIMARY KEY (receiver, id));
