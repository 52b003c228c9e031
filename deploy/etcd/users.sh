#!/bin/sh
# Makes etcd's users, at every start: docker-compose.yml runs it. Passwords are random and stay in a volume of their
# own; the worker gets a copy of its own. That of `health` is no secret: its user may do nothing but log in.
set -eu
umask 077
printf '%s\n' "$HEALTH_PASSWORD" > "$PASSWORDS/health"
wharfinger etcd enable-users "$PASSWORDS"
cp "$PASSWORDS/worker" "$OF_WORKER/worker"
