import { Button, createTheme, Drawer, Menu, Modal, PasswordInput, Select, Tooltip } from "@mantine/core";

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
    // A banner is the page's own.
    DrawerHeader: Drawer.Header.extend({ defaultProps: { role: "presentation" } }),
    ModalHeader: Modal.Header.extend({ defaultProps: { role: "presentation" } }),
    // Inside its landmark, and with nothing in it that is no item.
    Menu: Menu.extend({ defaultProps: { shadow: "md", withinPortal: false, withInitialFocusPlaceholder: false } }),
    PasswordInput: PasswordInput.extend({
      defaultProps: {
        visibilityToggleFocusable: true,
        visibilityToggleButtonProps: { "aria-label": "Show password" },
      },
    }),
    Select: Select.extend({ defaultProps: { comboboxProps: { shadow: "md" } } }),
    Tooltip: Tooltip.extend({ defaultProps: { openDelay: 300 } }),
  },
});
