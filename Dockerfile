# The worker. Built as a wheel first, so that the image holds what is shipped and no compiler. All packages are locked
# with their hashes. It runs as a user of its own and needs no file that it can write (`--read-only`): Python's bytecode
# is made here, not at each start.
#
#   docker build -t wharfinger .
#   docker run -e WHARFINGER_ETCD=http://etcd:2379 -e WHARFINGER_TEMPORAL=temporal:7233 wharfinger

FROM python:3.12-slim-bookworm AS build
WORKDIR /src
COPY requirements requirements
RUN python -m venv /opt/build && /opt/build/bin/pip install --no-cache-dir --require-hashes -r requirements/build.txt \
    && python -m venv /opt/wharfinger \
    && /opt/wharfinger/bin/pip install --no-cache-dir --require-hashes -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY workflows workflows
COPY activities activities
COPY tools tools
COPY examples examples
COPY deploy deploy
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /opt/build . \
    && /opt/wharfinger/bin/pip install --no-cache-dir --no-deps /opt/build/*.whl

FROM python:3.12-slim-bookworm
COPY --from=build /opt/wharfinger /opt/wharfinger
# Volumes of compose that are mounted there begin with this owner.
RUN useradd --system --uid 10001 --no-create-home wharfinger \
    && install -d -m 700 -o 10001 /etcd-users /etcd-worker /backups /state
USER 10001
ENV PATH=/opt/wharfinger/bin:$PATH PYTHONUNBUFFERED=1 WHARFINGER_BIND_ADDRESS=0.0.0.0 XDG_STATE_HOME=/state
EXPOSE 10259
# Alive, not ready: a worker that waits for etcd or Temporal is not helped by being started again. Docker may
# hand a proxy to every container; it is no way to our own loopback address.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, ssl, urllib.request as u; e = os.environ; tls = any(e.get('WHARFINGER_' + n) for n in ('TLS_CERT_FILE', 'CLIENT_CA_FILE', 'STATIC_TOKEN_FILE')); u.build_opener(u.ProxyHandler({}), u.HTTPSHandler(context=ssl._create_unverified_context())).open('http%s://127.0.0.1:%s/livez' % ('s' * tls, e.get('WHARFINGER_HEALTH_PORT', '10259')), timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["wharfinger"]
CMD ["worker"]
