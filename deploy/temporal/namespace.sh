#!/bin/sh
# Makes wharfinger's namespace and registers its search attributes. May run at every start, and again after a failure.
#
# The CLI reads TEMPORAL_ADDRESS and the variables of TLS and API keys; commands that are about a namespace want it
# named, whatever TEMPORAL_NAMESPACE says.
set -eu

RETENTION=${RETENTION:-720h} # how long the history of an ended run is kept; explanations reach that far back

# A port that is open does not serve yet. `docker compose up --wait` fails when a job fails once, whatever restarts it.
tries=0
until temporal operator cluster health; do
    tries=$((tries + 1))
    test "$tries" -lt 60 || exit 1
    sleep 1
done
if temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1; then
    temporal operator namespace update --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
else
    temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
fi

# Each name with a type of its own: the CLI drops names that have none. Registering again is no error. The server may
# know the namespace a moment later than its maker.
tries=0
until temporal operator search-attribute create --namespace "$TEMPORAL_NAMESPACE" \
    --name WharfingerPod --type Keyword --name WharfingerPods --type KeywordList \
    --name WharfingerNode --type Keyword --name WharfingerOutcome --type Keyword \
    --name WharfingerTenant --type Keyword --name WharfingerPlacement --type Keyword; do
    tries=$((tries + 1))
    test "$tries" -lt 30 || exit 1
    sleep 1
done
