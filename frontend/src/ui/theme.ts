import { Button, createTheme, Drawer, Menu, Modal, Select, Tooltip } from "@mantine/core";

/**
 * Behaviour only. Colours and sizes are CSS variables in tokens.css: Mantine's own variables come
 * as a static file, so no style tag is written and `style-src 'self'` is enough.
 */
export const theme = createTheme({
  respectReducedMotion: true,
  primaryColor: "blue",
  cursorType: "pointer",
  components: {
    Button: Button.extend({ defaultProps: { size: "sm", variant: "filled" } }),
    // react-remove-scroll would write a style tag.
    Drawer: Drawer.extend({ defaultProps: { lockScroll: false } }),
    Modal: Modal.extend({ defaultProps: { lockScroll: false, centered: true } }),
    Menu: Menu.extend({ defaultProps: { shadow: "md", withinPortal: true } }),
    Select: Select.extend({ defaultProps: { comboboxProps: { shadow: "md" } } }),
    Tooltip: Tooltip.extend({ defaultProps: { openDelay: 300 } }),
  },
});
