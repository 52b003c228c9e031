#!/bin/sh
# Makes Temporal's two databases and brings their tables to the version of the temporal-sql-tool that runs it.
# May run at every start, and again after a failure. To be run before a newer Temporal server is started.
#
# The tool reads SQL_HOST, SQL_PORT, SQL_USER and the SQL_TLS_* variables; the password is in SQL_PASSWORD_FILE.
set -eu

SQL_PLUGIN=postgres12_pgx
SQL_PASSWORD=$(cat "$SQL_PASSWORD_FILE")
export SQL_PLUGIN SQL_PASSWORD

for kind in temporal visibility; do
    case $kind in
        temporal) database=${TEMPORAL_DATABASE:-temporal} ;;
        visibility) database=${VISIBILITY_DATABASE:-temporal_visibility} ;;
    esac
    # Creating a database that is there fails, so ask it first. The tables of versions are made only when missing.
    if ! temporal-sql-tool --database "$database" setup-schema --version 0.0 >/dev/null 2>&1; then
        temporal-sql-tool --database "$database" create-database
        temporal-sql-tool --database "$database" setup-schema --version 0.0
    fi
    temporal-sql-tool --database "$database" update-schema --schema-name "postgresql/v12/$kind"
done
