# The action's image: Python, git, Pitstop. No compiler, no build tools.
# The tag is the pin: it gets security updates, and a digest would fix one platform's image.
FROM python:3.11-slim AS build
COPY requirements /source/requirements
RUN python3 -m pip install --no-cache-dir --only-binary=:all: --require-hashes \
        -r /source/requirements/build.txt \
    && python3 -m pip install --no-cache-dir --only-binary=:all: --require-hashes \
        --target /opt/pitstop -r /source/requirements/image.txt
COPY . /source
RUN python3 -m pip install --no-cache-dir --no-build-isolation --no-deps --upgrade \
        --target /opt/pitstop /source

FROM python:3.11-slim
LABEL org.opencontainers.image.title="Pitstop" \
      org.opencontainers.image.description="Reviews pull requests for what makes GPU training jobs slow or large." \
      org.opencontainers.image.licenses="GPL-3.0-or-later"
RUN apt-get update \
    && apt-get install -y --no-install-recommends git \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
COPY --from=build /opt/pitstop /opt/pitstop
COPY LICENSE /opt/pitstop/LICENSE
# PYTHONSAFEPATH: nothing is imported from the checkout that the action runs in.
# PITSTOP_IMAGE: root is given up for the owner of the workspace (see bot/privileges.py). GitHub
# mounts its folders with that owner, which no USER line could know.
ENV PYTHONPATH=/opt/pitstop \
    PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PITSTOP_IMAGE=1 \
    GIT_TERMINAL_PROMPT=0
ENTRYPOINT ["/opt/pitstop/bin/pitstop", "action"]
