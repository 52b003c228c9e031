# The worker. Built as a wheel first, so that the image holds what is shipped and no compiler.
#
#   docker build -t wharfinger .
#   docker run -e WHARFINGER_ETCD=http://etcd:2379 -e WHARFINGER_TEMPORAL=temporal:7233 wharfinger

FROM python:3.12-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY workflows workflows
COPY activities activities
COPY tools tools
COPY examples examples
RUN python -m venv /opt/wharfinger && /opt/wharfinger/bin/pip install --no-cache-dir --no-compile .

FROM python:3.12-slim-bookworm
COPY --from=build /opt/wharfinger /opt/wharfinger
RUN useradd --system --uid 10001 --no-create-home wharfinger
USER 10001
ENV PATH=/opt/wharfinger/bin:$PATH PYTHONUNBUFFERED=1 WHARFINGER_BIND_ADDRESS=0.0.0.0
EXPOSE 10259
# Alive, not ready: a worker that waits for etcd or Temporal is not helped by being started again. Docker may
# hand a proxy to every container; it is no way to our own loopback address.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as u; u.build_opener(u.ProxyHandler({})).open('http://127.0.0.1:%s/livez' % os.environ.get('WHARFINGER_HEALTH_PORT', '10259'), timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["wharfinger"]
CMD ["worker"]
